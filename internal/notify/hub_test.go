package notify_test

import (
	"fmt"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"quantix/internal/notify"
)

// takeSorted returns the changed keys that the subscription has been notified of; nil: no notification.
func takeSorted(s *notify.Subscription) []string {
	select {
	case <-s.C:
		return s.TakeKeys()
	default:
		return nil
	}
}

func TestWakeReachesSubscribersOfKeyAndOfType(t *testing.T) {
	t.Parallel()
	h := notify.NewHub()
	one, kind, plain, both := h.Subscribe("vm:1"), h.Subscribe("vm:*"), h.Subscribe("tasks"), h.Subscribe("host:9", "vm:1", "vm:*")
	for _, key := range []string{"vm:1", "vm:2", "vm:1", "vms:3", "host:1", "tasks"} {
		h.Wake(key)
	}
	for name, c := range map[string]struct {
		sub  *notify.Subscription
		want []string
	}{
		"vm:1":  {one, []string{"vm:1"}},
		"vm:*":  {kind, []string{"vm:1", "vm:2"}},
		"tasks": {plain, []string{"tasks"}},
		"three": {both, []string{"vm:1", "vm:2"}},
	} {
		if diff := cmp.Diff(c.want, takeSorted(c.sub)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
		if again := takeSorted(c.sub); again != nil {
			t.Errorf("%s woken again for %q", name, again)
		}
	}
}

func TestClosedSubscriptionNotWoken(t *testing.T) {
	t.Parallel()
	h := notify.NewHub()
	gone, stays := h.Subscribe("vm:1", "vm:*"), h.Subscribe("vm:1")
	gone.Close()
	h.Wake("vm:1")
	h.WakeAll()
	if got := takeSorted(gone); got != nil {
		t.Errorf("closed subscription woken for %q", got)
	}
	if diff := cmp.Diff([]string{notify.ResyncKey, "vm:1"}, takeSorted(stays)); diff != "" {
		t.Errorf("other subscription (-want +got):\n%s", diff)
	}
}

func TestTooManyWokenKeysAreReplacedByResync(t *testing.T) {
	t.Parallel()
	h := notify.NewHub()
	s := h.Subscribe("vm:*")
	for i := range 10_000 {
		h.Wake(fmt.Sprintf("vm:%d", i))
	}
	if keys := takeSorted(s); len(keys) > 257 || !slices.Contains(keys, notify.ResyncKey) {
		t.Errorf("%d keys, resync among them: %t", len(keys), slices.Contains(keys, notify.ResyncKey))
	}
}
