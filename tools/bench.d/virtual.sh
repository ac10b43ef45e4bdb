# Sourced by tools/bench. weir beside the kernel's own disciplines, with the kernel's TCP, in virtual time: the same words,
# in turns; then one table, as the README has it. With "scenarios", those of weir lab that both can run, small.
# shellcheck shell=bash disable=SC2154

which=${1:-shaping}
case $which in
shaping | scenarios) shift || true ;;
[0-9]*) which=shaping ;;
*) die "virtual $which: one of shaping, scenarios" ;;
esac
repeats=${1:-5}
seconds=${2:-10}
rate=${3:-20mbit}
. "$repo/tools/net.sh"
build_weir
"$repo/tools/guest" where >/dev/null
out=$repo/out/virtual/$which
rm -rf -- "$out"

# beside NAME SCENARIO PARAM…: one scenario under both routers, into a folder of its own. The guest is Linux 6.12.
beside() {
	local name=$1 scenario=$2 begun=$SECONDS word
	local -a params=()
	shift 2
	for word; do params+=(--param "$word"); done
	"$weir" lab --virtual "$scenario" "${params[@]}" --compat 6.12 --router weir --router kernel --repeat "$repeats" \
		-o "$out/$name" >/dev/null
	say "$name: $((SECONDS - begun)) s"
}

title "$which: $repeats repeats of each"
if [ "$which" = shaping ]; then
	for qdisc in "cake bandwidth RATE" "codel | tbf rate RATE burst BURST" "fq_codel | tbf rate RATE burst BURST"; do
		for load in "1 cubic" "32 cubic" "8 dctcp"; do
			read -r flows sender <<<"$load"
			words=$qdisc
			[ "$sender" = cubic ] || case $qdisc in
			cake*) continue ;; # the kernel's cake has no ce_threshold
			*) words=${qdisc/codel/codel ce_threshold 1ms} ;;
			esac
			beside "${qdisc%% *}-$flows-$sender" shaping rate="$rate" qdisc="$words" flows="$flows" sender="$sender" \
				seconds="$seconds"
		done
	done
else
	beside rrul rrul rate=10mbit seconds="$seconds"
	beside bbr20-codel bbr20 rate=20mbit sender=dctcp seconds="$seconds"
	beside bbr20-fq_codel bbr20 aqm=fq_codel rate=20mbit sender=dctcp seconds="$seconds"
	beside voip-beside-bulk voip-beside-bulk rate=5mbit seconds="$seconds"
	beside mtu-scaling mtu-scaling rule=kernel seconds="$((seconds + 2))"
	beside lossy lossy
	beside square square high=10mbit low=4mbit period=3s seconds="$((seconds + 2))"
	beside staggered staggered rate=10mbit every=2s
	beside hosts hosts rate=10mbit seconds="$seconds"
fi
"$weir" report "$out" --against kernel --markdown
