package notify

import (
	"context"
	"strings"
	"sync"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
)

const (
	tellEvery = 50 * time.Millisecond // at most so often: what comes in between goes together
	tellWait  = 5 * time.Second       // for one try
	maxTold   = 10_000                // keys that wait; past them one resync stands for all
	maxSaid   = 7900                  // bytes of one NOTIFY; PostgreSQL takes less than 8,000
)

// Notifier tells of changes that are committed: those who wait at its own hub at once, those at other portals with one NOTIFY for many.
// What it holds while its process is killed is lost, so nothing may rest on it that is not looked for now and then as well.
type Notifier struct {
	hub  *Hub
	pool *pgxpool.Pool
	mu   sync.Mutex
	keys map[string]struct{}
	busy bool // somebody sends
}

// NewNotifier makes a Teller for the portal of hub. It starts nothing.
func NewNotifier(hub *Hub, pool *pgxpool.Pool) *Notifier {
	return &Notifier{hub: hub, pool: pool, keys: map[string]struct{}{}}
}

// Notify tells of changes. It waits for nothing.
func (t *Notifier) Notify(keys ...string) {
	for _, k := range keys {
		t.hub.Wake(k)
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, k := range keys {
		t.keys[k] = struct{}{}
	}
	if len(t.keys) > maxTold {
		t.keys = map[string]struct{}{Resync: {}}
	}
	if !t.busy {
		t.busy = true
		go t.send()
	}
}

// send sends until nothing is left, or until it cannot: then the next one who tells tries again, for all that were not told.
func (t *Notifier) send() {
	for {
		keys := t.take()
		if len(keys) == 0 {
			return
		}
		ctx, cancel := context.WithTimeout(context.Background(), tellWait)
		// That a crash of the server loses what it tells is no loss: those who listen are told that they missed something.
		_, err := t.pool.Exec(ctx, "SELECT set_config('synchronous_commit', 'off', true), pg_notify($1, said) FROM unnest($2::text[]) AS said", Channel, t.hub.pack(keys))
		cancel()
		if err != nil {
			t.mu.Lock()
			t.keys, t.busy = map[string]struct{}{Resync: {}}, false
			t.mu.Unlock()
			return
		}
		time.Sleep(tellEvery)
	}
}

// take takes the keys that wait; where there are none it is the sender's last act.
func (t *Notifier) take() map[string]struct{} {
	t.mu.Lock()
	defer t.mu.Unlock()
	keys := t.keys
	t.keys, t.busy = map[string]struct{}{}, len(keys) > 0
	return keys
}

// packed marks what a Teller says: the hub that has been told already, then keys.
const packed = "@"

func (h *Hub) pack(keys map[string]struct{}) (said []string) {
	var b strings.Builder
	for k := range keys {
		if b.Len() > 0 && b.Len()+1+len(k) > maxSaid {
			said = append(said, b.String())
			b.Reset()
		}
		if b.Len() == 0 {
			b.WriteString(packed + h.name)
		}
		b.WriteString("\n" + k)
	}
	return append(said, b.String())
}

// hear wakes for what came by NOTIFY: one key, or what a Teller said.
func (h *Hub) hear(said string) {
	keys := strings.Split(said, "\n")
	if from, ok := strings.CutPrefix(keys[0], packed); ok {
		if keys = keys[1:]; from == h.name {
			return
		}
	}
	for _, k := range keys {
		if k == Resync {
			h.WakeAll()
		} else {
			h.Wake(k)
		}
	}
}
