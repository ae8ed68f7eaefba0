package query

import (
	"context"
	"maps"
	"sync"
	"time"

	"quantix/internal/control/store"
)

const (
	// wide is the number of hosts up to which totals are computed for each request.
	wide = 1000
	// keepFor is the refresh interval of cached totals. keepAtMost is their maximum age: later requests wait for a new
	// count.
	keepFor, keepAtMost = 3 * time.Second, 5 * time.Second
	// keepWarm is how long a total is refreshed after its last request.
	keepWarm  = time.Minute
	keptLimit = 10 * time.Second // limit for one background count
)

// kept caches totals over many hosts by key. It refreshes them in the background however many requests read them, so
// that pages of a large fleet cost as little as those of a small one.
type kept[K comparable, V any] struct {
	count   func(ctx context.Context, of []K) (map[K]V, error)
	hosts   func(V) int            // number of hosts in the total
	changed func(of K, was, now V) // called after a refresh that replaced a shown value
	mu      sync.Mutex
	of      map[K]*keeping[V]
}

type keeping[V any] struct {
	value     V
	at, asked time.Time
	counted   chan struct{} // closed at the end of the running count; nil if none runs
}

// get returns the totals of the keys, from the cache or counted now. Within a transaction it always counts, to see the
// transaction's own changes.
func (k *kept[K, V]) get(ctx context.Context, of ...K) (map[K]V, error) {
	if store.Joined(ctx) {
		return k.count(ctx, of)
	}
	out := make(map[K]V, len(of))
	var rest []K
	for _, key := range of {
		if v, ok := k.known(ctx, key); ok {
			out[key] = v
		} else {
			rest = append(rest, key)
		}
	}
	if len(rest) == 0 {
		return out, nil
	}
	began := time.Now()
	defer k.counting(rest)()
	now, err := k.count(ctx, rest)
	if err != nil {
		return nil, err
	}
	for _, key := range rest {
		k.keep(key, now[key], began)
	}
	maps.Copy(out, now)
	return out, nil
}

// one is get for a single key.
func (k *kept[K, V]) one(ctx context.Context, of K) (V, error) {
	out, err := k.get(ctx, of)
	return out[of], err
}

// warm starts caching a key before its first request.
func (k *kept[K, V]) warm(of K) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.of[of] == nil {
		k.begin(of, &keeping[V]{asked: time.Now()}, 0)
	}
}

// begin starts caching a key. The caller holds the lock.
func (k *kept[K, V]) begin(of K, one *keeping[V], after time.Duration) {
	if k.of == nil {
		k.of = map[K]*keeping[V]{}
	}
	k.of[of] = one
	time.AfterFunc(after, func() { k.again(of, one) })
}

// known returns the cached total. If that is too old, it waits for the count in progress, so that concurrent requests
// share one count. It finds nothing for few hosts or within a transaction.
func (k *kept[K, V]) known(ctx context.Context, of K) (v V, ok bool) {
	if store.Joined(ctx) {
		return v, false
	}
	v, counted, ok := k.latest(of)
	if ok || counted == nil {
		return v, ok
	}
	select {
	case <-counted:
	case <-ctx.Done():
	}
	v, _, ok = k.latest(of)
	return v, ok
}

// latest returns the cached total, or, if that is too old, the channel that closes when the count in progress ends.
func (k *kept[K, V]) latest(of K) (v V, counted <-chan struct{}, ok bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	one := k.of[of]
	switch {
	case one == nil:
		return v, nil, false
	case time.Since(one.at) > keepAtMost:
		return v, one.counted, false
	}
	one.asked = time.Now()
	return one.value, nil, true
}

// counting marks the keys as being counted until ended is called. Keys not in the cache are not marked: they may have
// few hosts, which each request counts anew.
func (k *kept[K, V]) counting(of []K) (ended func()) {
	k.mu.Lock()
	defer k.mu.Unlock()
	counted := make(chan struct{})
	var mine []*keeping[V]
	for _, key := range of {
		if one := k.of[key]; one != nil && one.counted == nil {
			one.counted = counted
			mine = append(mine, one)
		}
	}
	return func() {
		k.mu.Lock()
		defer k.mu.Unlock()
		for _, one := range mine {
			one.counted = nil
		}
		close(counted)
	}
}

// keep caches a total counted since began, if it covers many hosts and is newer than the cached one. A new entry
// schedules its first refresh.
func (k *kept[K, V]) keep(of K, v V, began time.Time) {
	k.mu.Lock()
	defer k.mu.Unlock()
	one := k.of[of]
	switch {
	case k.hosts(v) <= wide:
		delete(k.of, of)
	case one == nil:
		k.begin(of, &keeping[V]{value: v, at: began, asked: began}, pauseAfter(began))
	case began.After(one.at):
		one.value, one.at = v, began
	}
}

// pauseAfter returns the pause after a count that started at began. Counts start keepFor apart, so that a slow count
// finishes before its value expires. The pause is at least as long as the count took, to limit the load on the
// database.
func pauseAfter(began time.Time) time.Duration {
	took := time.Since(began)
	return max(keepFor-took, took)
}

// countBehind is count in a goroutine without a request that recovers panics.
func (k *kept[K, V]) countBehind(ctx context.Context, of K) (now map[K]V, err error) {
	defer store.Recovered(&err)
	return k.count(ctx, []K{of})
}

// again refreshes a cached total until no request has read it for keepWarm.
func (k *kept[K, V]) again(of K, one *keeping[V]) {
	k.mu.Lock()
	if k.of[of] == one && time.Since(one.asked) > keepWarm {
		delete(k.of, of)
	}
	was, shown, over := one.value, !one.at.IsZero(), k.of[of] != one
	k.mu.Unlock()
	if over {
		return
	}
	began := time.Now()
	defer func() { time.AfterFunc(pauseAfter(began), func() { k.again(of, one) }) }()
	defer k.counting([]K{of})()
	ctx, cancel := context.WithTimeout(context.Background(), keptLimit)
	defer cancel()
	now, err := k.countBehind(ctx, of)
	if err != nil {
		return // the value expires, and the next request reports the error
	}
	k.keep(of, now[of], began)
	if shown && k.changed != nil {
		k.changed(of, was, now[of])
	}
}
