// Package notify turns PostgreSQL's NOTIFY into keyed wake-ups: one LISTEN connection a portal, any number of waiters.
// A wake-up carries a key, never data: whoever is woken reads the truth.
package notify

import (
	"crypto/rand"
	"maps"
	"slices"
	"strings"
	"sync"
)

// Resync is the key that every waiter gets after wake-ups may have been lost.
const Resync = "resync"

// Hub hands wake-ups to those who wait for them.
type Hub struct {
	name string // among all portals' hubs
	mu   sync.Mutex
	subs map[string]map[*Sub]struct{}
}

// NewHub makes a hub without a source; Listen feeds it.
func NewHub() *Hub { return &Hub{name: rand.Text(), subs: map[string]map[*Sub]struct{}{}} }

// Sub waits for some keys. C has room for one wake-up; Take says which keys it was for.
type Sub struct {
	C     chan struct{}
	hub   *Hub
	keys  []string
	most  int // keys that it notes; past them one Resync stands for all
	mu    sync.Mutex
	woken map[string]struct{}
	deaf  map[string]bool // of its keys
}

// fewKeys is how many a subscription notes whose owner looks anew at little.
const fewKeys = 256

// Subscribe waits for keys; "vm:*" waits for all keys that start with "vm:". Close it when done.
func (h *Hub) Subscribe(keys ...string) *Sub { return h.SubscribeUpTo(fewKeys, keys...) }

// SubscribeUpTo is Subscribe for who has much to read after a Resync: so many keys are noted between two Takes before one stands for all.
func (h *Hub) SubscribeUpTo(most int, keys ...string) *Sub {
	s := &Sub{C: make(chan struct{}, 1), hub: h, keys: keys, most: most}
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, k := range keys {
		set := h.subs[k]
		if set == nil {
			set = make(map[*Sub]struct{}, 1)
			h.subs[k] = set
		}
		set[s] = struct{}{}
	}
	return s
}

// Take returns the keys that woke the subscription since the last Take, sorted, and forgets them.
func (s *Sub) Take() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	keys := slices.Sorted(maps.Keys(s.woken))
	s.woken = nil
	return keys
}

// Hush has none of these keys, as Subscribe took them, wake the subscription any more, until Heed: who knows already that they changed
// need not be woken for each change. What they did in between is lost, so whoever heeds them again looks after that.
func (s *Sub) Hush(keys ...string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.deaf == nil {
		s.deaf = make(map[string]bool, len(keys))
	}
	for _, k := range keys {
		s.deaf[k] = true
	}
}

// Heed ends Hush.
func (s *Sub) Heed(keys ...string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, k := range keys {
		delete(s.deaf, k)
	}
}

// Close ends the subscription.
func (s *Sub) Close() {
	s.hub.mu.Lock()
	defer s.hub.mu.Unlock()
	for _, k := range s.keys {
		delete(s.hub.subs[k], s)
		if len(s.hub.subs[k]) == 0 {
			delete(s.hub.subs, k)
		}
	}
}

// Wake wakes all who wait for key, or for its noun.
func (h *Hub) Wake(key string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for s := range h.subs[key] {
		s.wake(key, key)
	}
	if noun, _, ok := strings.Cut(key, ":"); ok {
		all := noun + ":*"
		for s := range h.subs[all] {
			s.wake(key, all)
		}
	}
}

// WakeAll tells every waiter that it may have missed something.
func (h *Hub) WakeAll() {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, set := range h.subs {
		for s := range set {
			s.wake(Resync, Resync)
		}
	}
}

// wake notes the key, which the subscription took as another perhaps; past a bound the keys no longer matter and one resync stands for all.
func (s *Sub) wake(key, took string) {
	s.mu.Lock()
	if s.deaf[took] {
		s.mu.Unlock()
		return
	}
	if s.woken == nil {
		s.woken = make(map[string]struct{}, 1)
	}
	if len(s.woken) < s.most {
		s.woken[key] = struct{}{}
	} else {
		s.woken[Resync] = struct{}{}
	}
	s.mu.Unlock()
	select {
	case s.C <- struct{}{}:
	default:
	}
}
