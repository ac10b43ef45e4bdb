# Sourced by tools/bench. What comes through at a rate: weir's tbf beside the kernel's, on the same veths in turns, and
# weir's cake against the rate it was told.
# shellcheck shell=bash disable=SC2154

repeats=${1:-2}
seconds=${2:-6}
warm_up=3
[ "$(id -u)" = 0 ] || die "makes network namespaces, so it needs root: sudo tools/bench shaping"

. "$repo/tools/net.sh"
build_weir
scratch=$(mktemp -d)
at_end() { rm -rf -- "$scratch"; }
net_up weirshape

# field KEY FILE [WAY]: the first number under that key, below the way's own.
field() { awk -v key="\"$1\":" -v way="${3:-}" 'way == "" || $1 == "\"" way "\":" { on = 1 } on && $1 == key { gsub(",", ""); print $2; exit }' "$2"; }

# load FLOWS: up from the client, pings beside.
load() {
	in_ns "$client" "$weir" load send 10.97.0.2:5201 --up "$1" --duration $((seconds + warm_up)) --warm-up $warm_up \
		--ping 0.05 -j >"$scratch/load.json"
	goodput=$(field goodput "$scratch/load.json" up)
	ping=$(field p50 "$scratch/load.json" ping)
}

kernel_up() {
	in_ns "$router" ip link add bridge0 type bridge
	for name in inside outside; do in_ns "$router" ip link set dev $name master bridge0; done
	in_ns "$router" ip link set dev bridge0 up
	for name in inside outside; do
		in_ns "$router" tc qdisc add dev $name root handle 1: tbf rate "$1" burst "$2" latency 50ms
		in_ns "$router" tc qdisc add dev $name parent 1:1 pfifo limit 1000
	done
	until_through || die "the kernel's bridge does not forward"
}

kernel_down() {
	for name in inside outside; do in_ns "$router" tc qdisc del dev $name root; done
	in_ns "$router" ip link del bridge0
}

# What weir has sent upward, and at which second of its run.
sent() {
	"$weir" stats -j | tr -d ' \n' | tr ',{' '\n\n' | awk -F: '/"direction":"up"/ { up = 1 } up && /"seconds"/ { at = $2 }
		up && /"sent":/ { here = 1 } here && /"bytes"/ { print $2, at; exit }'
}

title "tbf, weir beside the kernel, Mbit/s of payload; $repeats turns of $seconds s"
printf '%-10s%6s%12s%12s%10s%16s%16s\n' rate flows weir kernel ratio "ping weir, ms" "ping kernel, ms"
for rate in 10mbit 100mbit 1gbit; do
	burst=5k
	[ $rate != 1gbit ] || burst=100k
	for flows in 1 32; do
		: >"$scratch/pairs"
		for ((turn = 1; turn <= repeats; turn++)); do
			bridge_up "pfifo limit 1000 | tbf rate $rate burst $burst" "$scratch/weir.out" "$scratch/weir.err"
			load $flows
			end "$bridge" || die "weir failed: $(cat "$scratch/weir.err")"
			ours="$goodput $ping"
			kernel_up $rate $burst
			load $flows
			kernel_down
			echo "$ours $goodput $ping" >>"$scratch/pairs"
		done
		awk -v rate=$rate -v flows=$flows '{ w += $1; p += $2; k += $3; q += $4 } END {
			printf "%-10s%6d%12.3f%12.3f%10.4f%16.2f%16.2f\n", rate, flows, w / NR / 1e6, k / NR / 1e6, w / k, p / NR / 1e3, q / NR / 1e3 }' "$scratch/pairs"
	done
done

title "cake, weir; charged: bytes sent while backlogged, against the rate; ceiling: payload of 1514-byte frames at the rate"
printf '%-10s%6s%12s%14s%14s%14s%14s\n' rate flows goodput "of ceiling" "of charged" "ping idle, ms" "ping p50, ms"
for rate in 10 50 100; do
	for flows in 1 32; do
		bridge_up "cake bandwidth ${rate}mbit" "$scratch/weir.out" "$scratch/weir.err"
		in_ns "$client" "$weir" load ping 10.97.0.2 --every 0.02 --duration 1 -j >"$scratch/idle.json"
		load $flows &
		loading=$!
		sleep $warm_up
		before=$(sent)
		sleep $((seconds - 1))
		after=$(sent)
		wait $loading
		goodput=$(field goodput "$scratch/load.json" up) ping=$(field p50 "$scratch/load.json" ping)
		end "$bridge" || die "weir failed: $(cat "$scratch/weir.err")"
		awk -v rate=$rate -v flows=$flows -v good="$goodput" -v before="$before" -v after="$after" \
			-v idle="$(field p50 "$scratch/idle.json")" -v ping="$ping" 'BEGIN {
			split(before, b); split(after, a)
			charged = (a[1] - b[1]) * 8e-6 / (a[2] - b[2])
			printf "%-10s%6d%12.3f%14.4f%14.4f%14.2f%14.2f\n", rate "mbit", flows, good / 1e6, good / (rate * 1e6 * 1448 / 1514), charged / rate, idle / 1e3, ping / 1e3 }'
	done
done
