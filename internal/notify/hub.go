// Package notify turns PostgreSQL's NOTIFY into keyed wake-ups: one LISTEN connection for each portal, any number of
// subscribers. A wake-up carries a key, never data: the subscriber reads the current rows.
package notify

import (
	"crypto/rand"
	"maps"
	"slices"
	"strings"
	"sync"
)

// ResyncKey is the key that every subscriber gets after wake-ups may have been lost.
const ResyncKey = "resync"

// Hub delivers wake-ups to subscriptions. It is safe for concurrent use.
type Hub struct {
	name string // unique among the hubs of all portals
	mu   sync.Mutex
	subs map[string]map[*Subscription]struct{}
}

// NewHub returns a hub without a source; Listen feeds it.
func NewHub() *Hub { return &Hub{name: rand.Text(), subs: map[string]map[*Subscription]struct{}{}} }

// Subscription is a subscription to keys. C is buffered for one wake-up; TakeKeys returns the keys of all wake-ups.
type Subscription struct {
	C         chan struct{}
	hub       *Hub
	keys      []string
	limit     int // maximum size of woken; more keys are replaced by one Resync
	mu        sync.Mutex
	wokenKeys map[string]struct{}
	mutedKeys map[string]bool // muted keys
}

// defaultMaxKeys suits subscribers that read few rows after a ResyncKey.
const defaultMaxKeys = 256

// Subscribe subscribes to keys; "vm:*" matches all keys that start with "vm:". Close it when done.
func (h *Hub) Subscribe(keys ...string) *Subscription {
	return h.SubscribeWithLimit(defaultMaxKeys, keys...)
}

// SubscribeWithLimit is Subscribe for subscribers that read many rows after a ResyncKey: a Subscription stores up to limit
// keys between two calls of TakeKeys.
func (h *Hub) SubscribeWithLimit(limit int, keys ...string) *Subscription {
	s := &Subscription{C: make(chan struct{}, 1), hub: h, keys: keys, limit: limit}
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, k := range keys {
		set := h.subs[k]
		if set == nil {
			set = make(map[*Subscription]struct{}, 1)
			h.subs[k] = set
		}
		set[s] = struct{}{}
	}
	return s
}

// TakeKeys returns the keys of the wake-ups since its last call, sorted, and clears them.
func (s *Subscription) TakeKeys() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	keys := slices.Sorted(maps.Keys(s.wokenKeys))
	s.wokenKeys = nil
	return keys
}

// Mute mutes keys, in the form given to Subscribe, until Unmute. A subscriber mutes keys whose changes it already
// knows. Wake-ups of muted keys are lost, so the subscriber must read their rows after Unmute.
func (s *Subscription) Mute(keys ...string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.mutedKeys == nil {
		s.mutedKeys = make(map[string]bool, len(keys))
	}
	for _, k := range keys {
		s.mutedKeys[k] = true
	}
}

// Unmute unmutes the keys.
func (s *Subscription) Unmute(keys ...string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, k := range keys {
		delete(s.mutedKeys, k)
	}
}

// Close ends the subscription.
func (s *Subscription) Close() {
	s.hub.mu.Lock()
	defer s.hub.mu.Unlock()
	for _, k := range s.keys {
		delete(s.hub.subs[k], s)
		if len(s.hub.subs[k]) == 0 {
			delete(s.hub.subs, k)
		}
	}
}

// Wake wakes the subscribers of key and of all keys of its type.
func (h *Hub) Wake(key string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for s := range h.subs[key] {
		s.wakeUnlessMuted(key, key)
	}
	if kind, _, ok := strings.Cut(key, ":"); ok {
		all := kind + ":*"
		for s := range h.subs[all] {
			s.wakeUnlessMuted(key, all)
		}
	}
}

// WakeAll sends ResyncKey to every subscriber.
func (h *Hub) WakeAll() {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, set := range h.subs {
		for s := range set {
			s.wakeUnlessMuted(ResyncKey, ResyncKey)
		}
	}
}

// wakeUnlessMuted adds the key, which matches the subscribed pattern. When the limit is reached, ResyncKey replaces
// further keys.
func (s *Subscription) wakeUnlessMuted(key, pattern string) {
	s.mu.Lock()
	if s.mutedKeys[pattern] {
		s.mu.Unlock()
		return
	}
	if s.wokenKeys == nil {
		s.wokenKeys = make(map[string]struct{}, 1)
	}
	if len(s.wokenKeys) < s.limit {
		s.wokenKeys[key] = struct{}{}
	} else {
		s.wokenKeys[ResyncKey] = struct{}{}
	}
	s.mu.Unlock()
	select {
	case s.C <- struct{}{}:
	default:
	}
}
