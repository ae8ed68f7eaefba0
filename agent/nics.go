package agent

import (
	"sync"
	"time"

	"quantix/internal/fleet"
)

// nicWatch reads the host's network devices beside the looks at it: the kernel answers about them only when it has done with what it is
// changing, and no report waits for that.
type nicWatch struct {
	read func() []fleet.HostNIC

	mu    sync.Mutex
	under chan struct{} // a reading is under way until it is closed; nil: none is
	value []fleet.HostNIC
}

// get reads the devices anew; fresh: they are of now. What takes longer than patience is left to go on, and the next look finds what it read.
func (w *nicWatch) get(patience time.Duration) (nics []fleet.HostNIC, fresh bool) {
	w.mu.Lock()
	if w.under == nil {
		w.under = make(chan struct{})
		go w.look(w.under)
	}
	under := w.under
	w.mu.Unlock()
	t := time.NewTimer(patience)
	defer t.Stop()
	select {
	case <-under:
		fresh = true
	case <-t.C:
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.value, fresh
}

func (w *nicWatch) look(done chan struct{}) {
	nics := w.read()
	w.mu.Lock()
	w.value, w.under = nics, nil
	w.mu.Unlock()
	close(done)
}
