package agent

import (
	"sync"
	"time"

	"quantix/internal/wire"
)

// progressNotifier sends a job's progress: only the newest value, and nothing after stop. notify never blocks.
type progressNotifier struct {
	send func(wire.Progress) // blocks for a while, to space the calls

	mu      sync.Mutex
	newest  *wire.Progress
	sending bool
	stopped bool
}

func (t *progressNotifier) notify(percent int, note string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.stopped {
		return
	}
	t.newest = &wire.Progress{Percent: percent, Note: note}
	if !t.sending {
		t.sending = true
		go t.loop()
	}
}

func (t *progressNotifier) stop() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.stopped, t.newest = true, nil
}

func (t *progressNotifier) loop() {
	for {
		t.mu.Lock()
		p := t.newest
		t.newest = nil
		t.sending = p != nil
		t.mu.Unlock()
		if p == nil {
			return
		}
		t.send(*p)
	}
}

// progress sends a job's progress to the portal, at most once a second. A lost value is not resent.
func (a *Agent) progress(j *job, p wire.Progress) {
	p.Epoch = j.epoch.Load()
	answer, err := a.client.Progress(j.ctx, j.ID, p)
	if err != nil && j.ctx.Err() == nil {
		a.log.Debug("A job's progress did not reach the portal.", "job", j.ID, "error", err)
	}
	j.stop(answer.Stop)
	sleepContext(j.ctx, time.Second)
}
