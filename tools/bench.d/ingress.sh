# Sourced by tools/bench. A host behind a bottleneck of somebody else's, with and without weir ingress in front of it:
#
#   client (eth0, WAN) ---- isp: tbf and a FIFO of 1000 packets toward the client ---- router: 25 ms each way ---- server
#
# shellcheck shell=bash disable=SC2154

seconds=${1:-20}
flows=32
warm_up=10
[ "$(id -u)" = 0 ] || die "makes network namespaces, so it needs root: sudo tools/bench ingress"

. "$repo/tools/net.sh"
build_weir
scratch=$(mktemp -d)
isp=weiringress$$-isp
at_end() {
	ip netns del $isp 2>/dev/null || true
	rm -rf -- "$scratch"
}
net_up weiringress

# The bottleneck comes between the router and the client, in a namespace of its own.
ip netns add $isp
in_ns "$router" ip link del inside
ip link add inside netns "$router" type veth peer name far netns $isp
ip link add near netns $isp type veth peer name eth0 netns "$client"
in_ns $isp ip link add bridge0 type bridge
for name in far near; do
	in_ns $isp ethtool -K $name tx off tso off gso off gro off txvlan off >/dev/null
	in_ns $isp "$weir" napi $name
	in_ns $isp ip link set dev $name master bridge0
	in_ns $isp ip link set dev $name up
done
in_ns $isp ip link set dev bridge0 up
in_ns $isp tc qdisc add dev near root handle 1: tbf rate 10mbit burst 3028 latency 50ms
in_ns $isp tc qdisc add dev near parent 1:1 handle 2: pfifo limit 1000
in_ns "$router" ip link set dev inside up
in_ns "$client" ip address add 10.97.0.1/24 dev eth0
in_ns "$client" ip link set dev eth0 up
# Drops and not marks, since the FIFO cannot mark.
for name in $client $server; do in_ns "$name" sysctl -qw net.ipv4.tcp_ecn=0; done
bridge_up "netem delay 25ms limit 100000" "$scratch/delay.out" "$scratch/delay.err" --name weiringress-delay$$

# field KEY FILE [WAY]: the first number under that key, below the way's own.
field() { awk -v key="\"$1\":" -v way="${3:-}" 'way == "" || $1 == "\"" way "\":" { on = 1 } on && $1 == key { gsub(",", ""); print $2; exit }' "$2"; }

fifo_drops() { in_ns $isp tc -s qdisc show dev near | awk '/^qdisc pfifo/ { on = 1 } on && /dropped/ { gsub(",", ""); print $7; exit }'; }

# weir's own drops downward, the direction it tells first.
drops() { grep -o '"dropped":{"packets":[0-9]*' "$1" | sed 's/.*://;q'; }

# measure LABEL [DOWN]: one line; without DOWN without weir.
measure() {
	local label=$1 down=${2:-} shaper='' before after weir_drops
	if [ -n "$down" ]; then
		spawn_in_ns "$client" "$weir" ingress eth0 --host shaped --move-addresses --down "$down" --up 'cake bandwidth 10mbit ethernet' \
			-j >"$scratch/weir.out" 2>"$scratch/weir.err"
		shaper=$spawned
	fi
	until_through $shaper || die "$label: nothing comes through: $(cat -- "$scratch/weir.err")"
	in_ns "$client" "$weir" load ping 10.97.0.2 --every 0.05 --duration 2 -j >"$scratch/idle.json"
	before=$(fifo_drops)
	in_ns "$client" "$weir" load send 10.97.0.2:5201 --down $flows --duration $((seconds + warm_up)) --warm-up $warm_up \
		--ping 0.05 -j >"$scratch/load.json"
	after=$(fifo_drops)
	weir_drops=-
	if [ -n "$shaper" ]; then
		end "$shaper" || die "$label: weir failed: $(cat -- "$scratch/weir.err")"
		weir_drops=$(drops "$scratch/weir.out")
	fi
	awk -v label="$label" -v good="$(field goodput "$scratch/load.json" down)" -v idle="$(field p50 "$scratch/idle.json" rtt_us)" \
		-v p50="$(field p50 "$scratch/load.json" ping)" -v p99="$(field p99 "$scratch/load.json" ping)" \
		-v fifo=$((after - before)) -v weir="$weir_drops" 'BEGIN {
		printf "%-52s%9.2f%10.1f%10.1f%10.1f%10.1f%10d%10s\n", label, good / 1e6, idle / 1e3, p50 / 1e3, (p50 - idle) / 1e3, p99 / 1e3, fifo, weir }'
}

title "$flows downloads through 10 Mbit/s with a FIFO of 1000 packets, 50 ms; $seconds s after $warm_up s"
printf '%-52s%9s%10s%10s%10s%10s%10s%10s\n' "in front of the host" "Mbit/s" "idle, ms" "p50, ms" "over idle" "p99, ms" "lost FIFO" "lost weir"
measure "nothing"
for rate in 9500kbit 10mbit; do
	for mode in ingress egress; do measure "cake bandwidth $rate ethernet $mode" "cake bandwidth $rate ethernet $mode"; done
done
title "the same with what must stand in the queue before the AQM acts"
for rule in none 1mtu 2mtu 4mtu 2mtu-flows 4mtu-flows; do
	measure "cake bandwidth 10mbit ethernet min-occupancy $rule" "cake bandwidth 10mbit ethernet min-occupancy $rule"
done
