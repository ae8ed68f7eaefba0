package agent

import (
	"sync"
	"time"

	"quantix/internal/fleet"
)

// nicReader reads the host's network devices in the background, because the kernel answers only after it has finished
// pending changes, and no report must wait for that.
type nicReader struct {
	read func() []fleet.HostNIC

	mu      sync.Mutex
	reading chan struct{} // closed when the running read ends; nil: none is running
	value   []fleet.HostNIC
}

// get reads the devices; fresh: the list is current. If a read takes longer than maxWait, get returns the previous
// list. The read continues in the background, and a later get returns its result.
func (w *nicReader) get(maxWait time.Duration) (nics []fleet.HostNIC, fresh bool) {
	w.mu.Lock()
	if w.reading == nil {
		w.reading = make(chan struct{})
		go w.readDevices(w.reading)
	}
	under := w.reading
	w.mu.Unlock()
	t := time.NewTimer(maxWait)
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

func (w *nicReader) readDevices(done chan struct{}) {
	nics := w.read()
	w.mu.Lock()
	w.value, w.reading = nics, nil
	w.mu.Unlock()
	close(done)
}
