# Sourced by tools/bench. weir with an unlimited queue against a bare AF_XDP forwarder and the kernel's own bridge.
# shellcheck shell=bash disable=SC2154

rounds=${1:-10}
seconds=${2:-2}
[ "$(id -u)" = 0 ] || die "makes network namespaces, so it needs root: sudo tools/bench forward"

. "$repo/tools/net.sh"
build_weir
scratch=$(mktemp -d)
for name in bare blast; do cc -O2 -o "$scratch/$name" "$repo/tools/bench.d/$name.c"; done

at_end() { rm -rf -- "$scratch"; }
net_up weirbench

# The three of them, each started and ended anew for every measurement.
start() {
	case $1 in
	weir*)
		local how=()
		read -r -a how <<<"${1#weir}"
		bridge_up 'pfifo limit 1000000' "$scratch/weir.out" "$scratch/weir.err" "${how[@]}"
		middle=$bridge
		;;
	bare)
		spawn_in_ns $router "$scratch/bare" outside inside 3600 >/dev/null
		middle=$spawned
		;;
	kernel)
		middle=
		in_ns $router ip link add bridge0 type bridge
		for name in inside outside; do in_ns $router ip link set dev $name master bridge0; done
		in_ns $router ip link set dev bridge0 up
		;;
	esac
	until_through || die "$1 does not forward"
}

stop() {
	if [ -n "$middle" ]; then
		end $middle || true
	else
		in_ns $router ip link del bridge0
	fi
}

received() { in_ns $server ip -s link show dev eth0 | awk '/RX:/ { getline; print $2 }'; }

# pps PAYLOAD: UDP packets a second that come out at the server.
pps() {
	local before after
	before=$(received)
	in_ns $client "$scratch/blast" 10.97.0.2 "$1" "$seconds" >/dev/null
	after=$(received)
	echo $(((after - before) / seconds))
}

# Mbit/s of one TCP flow.
tcp() {
	in_ns $client "$weir" load send 10.97.0.2:5201 --up 1 --duration "$seconds" -j |
		awk -F'[:,]' '/"goodput"/ { printf "%.0f\n", $2 / 1e6; exit }'
}

contestants=("weir" "weir --poll busy --cores 1" bare kernel)
: >"$scratch/results"
for ((round = 1; round <= rounds; round++)); do
	for ((i = 0; i < ${#contestants[@]}; i++)); do
		# Another one begins each round.
		who=${contestants[$(((i + round) % ${#contestants[@]}))]}
		start "$who"
		small=$(pps 22) large=$(pps 1472) flow=$(tcp)
		stop
		printf '%s\t%s\t%s\t%s\t%s\n' "$round" "$who" "$small" "$large" "$flow" | tee -a "$scratch/results"
	done
done

title "medians of $rounds rounds, least and most in brackets"
awk -F'\t' '
function sorted(list, n,    i, j, t) {
	for (i = 2; i <= n; i++) for (j = i; j > 1 && list[j - 1] > list[j]; j--) { t = list[j]; list[j] = list[j - 1]; list[j - 1] = t }
}
function median(list, n) { return n % 2 ? list[(n + 1) / 2] : (list[n / 2] + list[n / 2 + 1]) / 2 }
{
	if (!($2 in seen)) { seen[$2] = 1; order[++names] = $2 }
	for (k = 1; k <= 3; k++) value[$2, $1, k] = $(k + 2)
	if ($1 > rounds) rounds = $1
}
END {
	what[1] = "UDP, 64-byte frames, packets/s"; what[2] = "UDP, 1514-byte frames, packets/s"; what[3] = "one TCP flow, Mbit/s"
	for (k = 1; k <= 3; k++) {
		printf "%s\n", what[k]
		for (o = 1; o <= names; o++) {
			who = order[o]; n = 0; m = 0; b = 0
			for (r = 1; r <= rounds; r++) {
				list[++n] = value[who, r, k] + 0
				if (value["bare", r, k] > 0) pairs[++m] = value[who, r, k] / value["bare", r, k]
				if (value["kernel", r, k] > 0) against[++b] = value[who, r, k] / value["kernel", r, k]
			}
			sorted(list, n); sorted(pairs, m); sorted(against, b)
			printf "  %-28s %9.0f [%.0f..%.0f]   of bare %.2f [%.2f..%.2f]   of kernel %.2f [%.2f..%.2f]\n", who, median(list, n), list[1], list[n], median(pairs, m), pairs[1], pairs[m], median(against, b), against[1], against[b]
		}
	}
}' "$scratch/results"
