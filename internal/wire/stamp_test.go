package wire

import (
	"testing"
	"testing/synctest"
	"time"
)

// Whatever was under way how long: the moment that a stamp tells is never after the portal's present.
func TestAStampIsNeverAheadOfThePortal(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var s stamps
		if s.now() != nil {
			t.Fatal("a stamp before the portal has told any time")
		}
		ahead := 5 * time.Hour // of the portal's clock
		answer := func(underWay time.Duration) {
			at := time.Now().Add(ahead)
			time.Sleep(underWay)
			s.heard(at)
		}
		late := func() time.Duration {
			stamp := s.now()
			return time.Now().Add(ahead).Sub(stamp.At.Add(time.Duration(stamp.AgoMs) * time.Millisecond))
		}
		for _, step := range []struct {
			underWay, then, want time.Duration
		}{
			{20 * time.Second, time.Second, 20 * time.Second},
			{time.Second, 10 * time.Second, time.Second},
			{15 * time.Second, 10 * time.Second, time.Second}, // the better stamp is kept,
			{2 * time.Second, time.Minute, time.Second},
			{3 * time.Second, time.Second, 3 * time.Second}, // but not for ever: clocks drift
		} {
			answer(step.underWay)
			time.Sleep(step.then)
			if got := late(); got != step.want {
				t.Errorf("after an answer that was %s under way the stamp is %s late, want %s", step.underWay, got, step.want)
			}
		}
		s.heard(time.Time{}) // of a portal that tells no time
		if late() != 3*time.Second {
			t.Error("no time counts as a time")
		}
	})
}
