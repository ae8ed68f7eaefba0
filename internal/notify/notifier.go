package notify

import (
	"context"
	"strings"
	"sync"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
)

const (
	sendInterval    = 50 * time.Millisecond // minimum interval; changes in between are sent together
	sendTimeout     = 5 * time.Second       // for one attempt
	maxPendingKeys  = 10_000                // maximum number of pending keys; more are replaced by one resync
	maxPayloadBytes = 7900                  // bytes of one NOTIFY; PostgreSQL's limit is below 8,000
)

// Notifier announces committed changes: to subscribers of its own hub at once, to other portals with one NOTIFY for
// many keys. A killed process loses pending keys, so every subscriber must also poll.
type Notifier struct {
	hub     *Hub
	pool    *pgxpool.Pool
	mu      sync.Mutex
	pending map[string]struct{}
	sending bool // a goroutine is sending
}

// NewNotifier returns a Notifier for the portal of hub. It starts nothing.
func NewNotifier(hub *Hub, pool *pgxpool.Pool) *Notifier {
	return &Notifier{hub: hub, pool: pool, pending: map[string]struct{}{}}
}

// Notify announces changes. It does not block.
func (n *Notifier) Notify(keys ...string) {
	for _, k := range keys {
		n.hub.Wake(k)
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, k := range keys {
		n.pending[k] = struct{}{}
	}
	if len(n.pending) > maxPendingKeys {
		n.pending = map[string]struct{}{ResyncKey: {}}
	}
	if !n.sending {
		n.sending = true
		go n.sendPending()
	}
}

// sendPending sends until no key is pending or an attempt fails. After a failure the next Notify tries again, with a
// resync for all lost keys.
func (n *Notifier) sendPending() {
	for {
		keys := n.takePending()
		if len(keys) == 0 {
			return
		}
		ctx, cancel := context.WithTimeout(context.Background(), sendTimeout)
		// Asynchronous commit is safe: after a server crash all listeners reconnect and resync.
		_, err := n.pool.Exec(ctx, "SELECT set_config('synchronous_commit', 'off', true), pg_notify($1, payload) FROM unnest($2::text[]) AS payload", PostgresChannel, n.hub.packPayloads(keys))
		cancel()
		if err != nil {
			n.mu.Lock()
			n.pending, n.sending = map[string]struct{}{ResyncKey: {}}, false
			n.mu.Unlock()
			return
		}
		time.Sleep(sendInterval)
	}
}

// takePending returns the pending keys. If there are none, the sender must return.
func (n *Notifier) takePending() map[string]struct{} {
	n.mu.Lock()
	defer n.mu.Unlock()
	keys := n.pending
	n.pending, n.sending = map[string]struct{}{}, len(keys) > 0
	return keys
}

// packedPrefix starts a payload of a Notifier: the name of the sending hub, then one key a line.
const packedPrefix = "@"

func (h *Hub) packPayloads(keys map[string]struct{}) (payloads []string) {
	var b strings.Builder
	for k := range keys {
		if b.Len() > 0 && b.Len()+1+len(k) > maxPayloadBytes {
			payloads = append(payloads, b.String())
			b.Reset()
		}
		if b.Len() == 0 {
			b.WriteString(packedPrefix + h.name)
		}
		b.WriteString("\n" + k)
	}
	return append(payloads, b.String())
}

// receivePayload wakes the subscribers for a NOTIFY payload: one key, or a message of a Notifier.
func (h *Hub) receivePayload(payload string) {
	keys := strings.Split(payload, "\n")
	if from, ok := strings.CutPrefix(keys[0], packedPrefix); ok {
		if keys = keys[1:]; from == h.name {
			return
		}
	}
	for _, k := range keys {
		if k == ResyncKey {
			h.WakeAll()
		} else {
			h.Wake(k)
		}
	}
}
