package migration

import (
	"testing"
	"time"
)

func TestWindowGrowsWithRoundTripTime(t *testing.T) {
	t.Parallel()
	for roundTrip, want := range map[time.Duration]int{0: minWindow, 100 * time.Microsecond: minWindow, 2 * time.Millisecond: 38, time.Second: maxWindow} {
		if got := windowFor(roundTrip); got != want {
			t.Errorf("the window for %s is %d pieces, want %d", roundTrip, got, want)
		}
	}
}
