package wire

import (
	"testing"
	"testing/synctest"
	"time"
)

// A stamp's time is never after the portal's current time, however long answers are delayed.
func TestReportStampNeverAheadOfPortalClock(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var s portalClock
		if s.stamp() != nil {
			t.Fatal("stamp without a portal time")
		}
		ahead := 5 * time.Hour // the portal's clock is ahead of the agent's
		answer := func(underWay time.Duration) {
			at := time.Now().Add(ahead)
			time.Sleep(underWay)
			s.update(at)
		}
		busyTimer := func() time.Duration {
			stamp := s.stamp()
			return time.Now().Add(ahead).Sub(stamp.At.Add(time.Duration(stamp.AgoMs) * time.Millisecond))
		}
		for _, step := range []struct {
			underWay, then, want time.Duration
		}{
			{20 * time.Second, time.Second, 20 * time.Second},
			{time.Second, 10 * time.Second, time.Second},
			{15 * time.Second, 10 * time.Second, time.Second}, // the better stamp stays in use,
			{2 * time.Second, time.Minute, time.Second},
			{3 * time.Second, time.Second, 3 * time.Second}, // but not forever, because clocks drift
		} {
			answer(step.underWay)
			time.Sleep(step.then)
			if off, ok := s.offset(); !ok || off != ahead-step.want {
				t.Errorf("the clocks differ by %s, want %s", off, ahead-step.want)
			}
			if got := busyTimer(); got != step.want {
				t.Errorf("after an answer delayed by %s the stamp is %s late, want %s", step.underWay, got, step.want)
			}
		}
		s.update(time.Time{}) // from a portal that sends no time
		if busyTimer() != 3*time.Second {
			t.Error("zero time accepted")
		}
	})
}
