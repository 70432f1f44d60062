#!/usr/bin/env bash
# SPDX-License-Identifier: GPL-2.0
#
# Mixed load with faults for hours, and a page about it:	soak.sh <hours> [seed]
# The page and its plot go to the run's folder; the last lines tell where.

# shellcheck source=scripts/lib.sh
. "$(dirname "$0")/lib.sh"
hours=$1 seed=${2:-1}
seconds=$(awk -v h="$hours" 'BEGIN { if (h ~ /^[0-9]*\.?[0-9]+$/) print int(h * 3600); else print 0 }')
[ "$seconds" -ge 300 ] || die "HOURS=$hours is not a number of hours, or less than five minutes"
[[ $seed =~ ^[0-9]+$ ]] || die "SEED=$seed is not a number"
run=$SMBD_CACHE/run/soak-$(date +%m%d-%H%M%S)-$$

soak() {
	"$TOP/scripts/guest.sh" -t $((seconds + 1800 * SLOW)) -d "$run" -v GUEST_MEM=4096 -- \
		"$TOP/tests/selftests/soak.sh" "$seconds" "$seed"
}

# recovery: each fault with how often it struck and how long the first answer took, from faults.tsv.
recovery() {
	sort -t$'\t' -k4,4 -k3,3n "$run/faults.tsv" | awk -F'\t' '
		function row() { if (n) printf "%-16s %5d %9d %9d %9d\n", name, n, t[1], t[int((n + 1) / 2)], t[n] }
		$4 != name { row(); name = $4; n = 0 }
		{ t[++n] = $3 }
		END { row() }'
}

page() {
	local title="Soak: $hours h, seed $seed" result=passed memory
	grep -qx ok "$run/out" || result=FAILED
	memory=$(awk 'NR == 12 { first = $3 } { last = $3 } END { print int(first / 1024), "MiB after a minute,", int(last / 1024), "MiB at the end" }' "$run/throughput.tsv")
	cat <<-RST
		.. SPDX-License-Identifier: GPL-2.0

		$title
		${title//?/=}

		Made by \`\`make soak HOURS=$hours SEED=$seed\`\`${SANITIZER:+ with SANITIZER=$SANITIZER}; kernel $(<"$("$TOP/scripts/kernel.sh")/release"), $TRANSPORT module of
		commit $(git -C "$TOP" rev-parse --short HEAD), two rxe devices behind a switch in one guest under emulation. Result: **$result**.

		Load: four writers that read back what they wrote (fio, crc32c), a tree of small files
		that comes, is compared and goes, files of any size that are compared. $(sed -n 's/^# load/Load/p' "$run/out").

		.. figure:: soak.svg

		   Throughput over the cable; each mark is a fault.

		Time from the repair to the first answered write, ms::

		  fault            times     least    median      most
		$(recovery | sed 's/^/  /')

		Memory of the kernel itself: $memory.

		$(sed -n 's/^not ok: /* failed: /p' "$run/out")

		Counters at the end, with no consumer left::

		$(sed 's/^/  /' "$run/counters" 2>/dev/null)
	RST
}

plot() {
	"$TOP/scripts/enter-root.sh" gnuplot <<-PLOT
		set terminal svg size 1000,360 dynamic background rgb "white"
		set output "$run/soak.svg"
		set xlabel "s"
		set ylabel "MiB/s"
		set key top right
		plot "$run/throughput.tsv" using 1:2 with lines lw 1 title "throughput", \\
			"$run/faults.tsv" using 1:(0) with points pt 9 ps 1 lc rgb "red" title "fault begins"
	PLOT
}

ROOT=$("$TOP/scripts/root.sh")
export ROOT
step "soak for $hours h, seed $seed" soak || true
touch "$run/out" "$run/throughput.tsv" "$run/faults.tsv"
page >"$run/soak.rst"
plot
grep -E '^(#|ok|not ok)' "$run/out" || echo "not ok: the guest said nothing ($run)"
echo "report: $run/soak.rst, $run/soak.svg"
grep -qx ok "$run/out"
