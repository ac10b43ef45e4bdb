# Sourced by tools/bench. The runs of the Ouroboros tutorial, live: data-transfer frames over packet sockets, through weir
# with 10 Mbit/s, and senders that read the depth of its queue in them. The burst is 12 ms of the rate, for machines on which
# weir is late now and then.
# shellcheck shell=bash disable=SC2154

rate=${1:-10mbit}
controller=${2:-scaled}
[ "$(id -u)" = 0 ] || die "makes network namespaces, so it needs root: sudo tools/bench mb-ecn"

. "$repo/tools/net.sh"
build_weir
scratch=$(mktemp -d)
at_end() { rm -rf -- "$scratch"; }
net_up weirmbecn
# Whoever is addressed by these need not be an interface's own: both listen to all.
sink=02:00:0a:61:00:02

# run TITLE SKIP -- SENDER'S WORDS [-- SECOND SENDER'S WORDS]: what came, the controllers at the end, and what weir dropped.
run() {
	local heading=$1 skip=$2 words=() number=1 receiver sender senders=()
	shift 3
	title "$heading"
	spawn_in_ns "$router" "$weir" bridge outside inside --down "pfifo limit 1000 | tbf rate $rate burst 15k" \
		--up "pfifo limit 1000 mb-ecn dtp | tbf rate $rate burst 15k" >"$scratch/weir.out" 2>"$scratch/weir.err"
	bridge=$spawned
	until_through "$bridge" || die "weir bridge did not come up: $(cat -- "$scratch/weir.err")"
	spawn_in_ns "$server" "$weir" load dtp-recv eth0 --as $sink --skip "$skip" --controller "$controller" >"$scratch/received"
	receiver=$spawned
	sleep 0.5
	while [ $# -gt 0 ]; do
		words=()
		while [ $# -gt 0 ] && [ "$1" != -- ]; do words+=("$1") && shift; done
		[ $# = 0 ] || shift
		# A word of its own says how much later this sender starts.
		[ "${words[0]}" != later ] || { sleep "${words[1]}" && words=("${words[@]:2}"); }
		spawn_in_ns "$client" "$weir" load dtp-send eth0 --from 02:00:0a:61:01:0$number --to $sink --controller "$controller" \
			"${words[@]}" >"$scratch/sent$number"
		senders+=("$spawned")
		number=$((number + 1))
	done
	wait "${senders[@]}"
	wait "$receiver"
	cat "$scratch/received"
	for sender in "$scratch"/sent*; do sed 's/^/  sender: /' "$sender"; done
	rm -f "$scratch"/sent*
	"$weir" stats | sed -nE 's/^ *(Sent .*dropped.*)/  weir: \1/p'
	end "$bridge" || die "weir failed: $(cat "$scratch/weir.err")"
}

run "one flow, 20 s" 2 -- --duration 20
run "two flows of one path, 30 s" 2 -- --flows 2 --duration 30
run "a raw flow beside a reliable one, 30 s" 2 -- --flows 2 --reliable 1 --duration 30
run "three flows, one every 15 s: 75, 45 and 15 s" 0 -- --flows 3 --stagger 15 --duration 75
run "one flow of one source, and 20 s later five of another; the last 60 s" 60 -- --duration 120 -- later 20 --flows 5 --duration 100
