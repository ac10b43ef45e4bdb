# Sourced by tools/bench. weir with autorate beside a modem whose rate moves: the kernel's tbf over a FIFO, on the way to
# the server and back, changed by tc while TCP runs.
# shellcheck shell=bash disable=SC2154

flows=${1:-4}
[ "$(id -u)" = 0 ] || die "makes network namespaces, so it needs root: sudo tools/bench autorate"

. "$repo/tools/net.sh"
build_weir
scratch=$(mktemp -d)
modem='' distance=''
at_end() {
	for name in $modem $distance; do ip netns del "$name" 2>/dev/null || true; done
	rm -rf -- "$scratch"
}
net_up weirauto

# Between weir and the server, the modem, and behind it 20 ms of distance each way, by another weir:
#   router (outside) ---- (eth0) modem (eth1) ---- (near) distance (far) ---- (eth0) server
modem=$router-modem distance=$router-distance
ip netns add "$modem"
ip netns add "$distance"
in_ns "$router" ip link del outside
ip link add outside netns "$router" type veth peer name eth0 netns "$modem"
ip link add eth1 netns "$modem" type veth peer name near netns "$distance"
ip link add far netns "$distance" type veth peer name eth0 netns "$server"
plug() { # NAMESPACE NIC
	in_ns "$1" ethtool -K "$2" tx off tso off gso off gro off txvlan off >/dev/null
	in_ns "$1" ip link set dev "$2" up
}
plug "$router" outside
plug "$modem" eth0
plug "$modem" eth1
plug "$server" eth0
plug "$distance" near
plug "$distance" far
in_ns "$modem" "$weir" napi eth0
in_ns "$modem" "$weir" napi eth1
in_ns "$server" "$weir" napi eth0
in_ns "$server" ip address add 10.97.0.2/24 dev eth0
delay='netem delay 20ms limit 4000'
spawn_in_ns "$distance" "$weir" bridge far near --name distance --down "$delay" --up "$delay" >"$scratch/distance.out" 2>&1
in_ns "$modem" ip link add bridge0 type bridge
for name in eth0 eth1; do in_ns "$modem" ip link set dev $name master bridge0; done
in_ns "$modem" ip link set dev bridge0 up

# What the modem sends at, each way: a thousand full packets may wait there.
modem_at() { # add|change RATE
	local nic
	for nic in eth0 eth1; do in_ns "$modem" tc qdisc "$1" dev $nic root tbf rate "$2" burst 10k limit 1514000; done
}

log=$scratch/autorate.jsonl
for way in down up; do
	modem_at add 20mbit
	spec='cake bandwidth 20mbit autorate 2mbit 50mbit'
	title "$flows cubic flows $way; the link 20, 5 (from 20 s), 30 Mbit/s (from 40 s)"
	spawn_in_ns "$router" "$weir" bridge outside inside --down "$spec ingress" --up "$spec" --name home --autorate-log "$log" \
		>"$scratch/weir.out" 2>"$scratch/weir.err"
	bridge=$spawned
	until_through $bridge || die "weir bridge did not come up: $(cat "$scratch/weir.err")"
	spawn_in_ns "$client" "$weir" load send 10.97.0.2:5201 --$way "$flows" --duration 60
	load=$spawned
	printf '%6s %10s %10s %12s %12s  %s\n' second link weir "ping p50" "ping max" why
	link=20
	for ((second = 0; second < 60; second += 2)); do
		case $second in
		20) modem_at change 5mbit && link=5 ;;
		40) modem_at change 30mbit && link=30 ;;
		esac
		in_ns "$client" "$weir" load ping 10.97.0.2 --every 0.05 --duration 1.6 --wait 0.2 -j >"$scratch/ping.json"
		"$weir" stats home | awk -v second="$second" -v link="$link" -v way="$way" -v ping="$(
			awk '/"(p50|max)":/ { gsub(",", ""); printf "%.1f ", $2 / 1000 }' "$scratch/ping.json"
		)" '
			$1 == "weir" { here = $2 == way }
			here && $1 == "autorate" { rate = $2; why = $0; sub(/.*Mbit\/s: /, "", why) }
			END { split(ping, p, " "); printf "%6d %10.1f %10.2f %9.1f ms %9.1f ms  %s\n", second, link, rate, p[1], p[2], why }'
	done
	wait "$load" || die "the load failed"
	end "$bridge" || die "weir failed: $(cat "$scratch/weir.err")"
	for nic in eth0 eth1; do in_ns "$modem" tc qdisc del dev $nic root; done
	"$weir" replay --autorate "$log" | awk '/bloat|drained|moved/' | tail -n 12
done
