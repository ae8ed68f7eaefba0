package cli

import "testing"

func TestGCPercentFallsAsLiveHeapGrows(t *testing.T) {
	t.Parallel()
	const mib = 1 << 20
	for live, want := range map[uint64]int{0: 400, 10 * mib: 400, 48 * mib: 400, 96 * mib: 200, 192 * mib: 100, 384 * mib: 50, 4096 * mib: 50} {
		if got := gcPercent(live); got != want {
			t.Errorf("%d MiB may grow by %d %%, want %d", live/mib, got, want)
		}
	}
}
