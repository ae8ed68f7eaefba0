package query

import (
	"context"
	"maps"
	"sync"
	"time"

	"quantix/internal/control/store"
)

const (
	// maxUncachedHosts is the number of hosts up to which a total is not cached: each request computes the total.
	maxUncachedHosts = 1000
	// refreshInterval is the interval at which cached totals are computed again. maxTotalAge is the maximum age of a total
	// that a request returns. If the cached total is older, the request waits for a new total.
	refreshInterval, maxTotalAge = 3 * time.Second, 5 * time.Second
	// idleTimeout is how long a total is still refreshed after the last request for it.
	idleTimeout    = time.Minute
	refreshTimeout = 10 * time.Second // limit for one background count
)

// totalsCache caches totals over many hosts, by key such as a pool's ID. It refreshes them in the background at a fixed
// interval, so that the load on the database does not grow with the number of requests.
type totalsCache[K comparable, V any] struct {
	count   func(ctx context.Context, of []K) (map[K]V, error)
	hosts   func(V) int            // number of hosts in the total
	changed func(of K, was, now V) // called after a refresh that replaced a shown value
	mu      sync.Mutex
	entries map[K]*cachedTotal[V]
}

type cachedTotal[V any] struct {
	value           V
	at, lastRequest time.Time
	done            chan struct{} // closed at the end of the running count; nil if none runs
}

// getTotals returns the totals of the keys, from the cache or computed now. Within a transaction it always computes
// them, because the transaction must see its own changes.
func (k *totalsCache[K, V]) getTotals(ctx context.Context, of ...K) (map[K]V, error) {
	if store.InTx(ctx) {
		return k.count(ctx, of)
	}
	out := make(map[K]V, len(of))
	var rest []K
	for _, key := range of {
		if v, ok := k.lookUpTotal(ctx, key); ok {
			out[key] = v
		} else {
			rest = append(rest, key)
		}
	}
	if len(rest) == 0 {
		return out, nil
	}
	began := time.Now()
	defer k.markCounting(rest)()
	now, err := k.count(ctx, rest)
	if err != nil {
		return nil, err
	}
	for _, key := range rest {
		k.storeTotal(key, now[key], began)
	}
	maps.Copy(out, now)
	return out, nil
}

// getTotal works like getTotals for a single key.
func (k *totalsCache[K, V]) getTotal(ctx context.Context, of K) (V, error) {
	out, err := k.getTotals(ctx, of)
	return out[of], err
}

// prefetchTotal starts caching a key before its first request.
func (k *totalsCache[K, V]) prefetchTotal(of K) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.entries[of] == nil {
		k.startCaching(of, &cachedTotal[V]{lastRequest: time.Now()}, 0)
	}
}

// startCaching adds the entry of a key and schedules its first refresh. The caller must hold the lock.
func (k *totalsCache[K, V]) startCaching(of K, entry *cachedTotal[V], after time.Duration) {
	if k.entries == nil {
		k.entries = map[K]*cachedTotal[V]{}
	}
	k.entries[of] = entry
	time.AfterFunc(after, func() { k.refreshUntilIdle(of, entry) })
}

// lookUpTotal returns the cached total. If it is too old, lookUpTotal waits for a running count, so that concurrent
// requests share one count. ok is false if the total is not cached, or within a transaction.
func (k *totalsCache[K, V]) lookUpTotal(ctx context.Context, of K) (v V, ok bool) {
	if store.InTx(ctx) {
		return v, false
	}
	v, done, ok := k.latestTotal(of)
	if ok || done == nil {
		return v, ok
	}
	select {
	case <-done:
	case <-ctx.Done():
	}
	v, _, ok = k.latestTotal(of)
	return v, ok
}

// latestTotal returns the cached total. If it is too old, latestTotal returns the channel that is closed when the
// running count ends.
func (k *totalsCache[K, V]) latestTotal(of K) (v V, done <-chan struct{}, ok bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	entry := k.entries[of]
	switch {
	case entry == nil:
		return v, nil, false
	case time.Since(entry.at) > maxTotalAge:
		return v, entry.done, false
	}
	entry.lastRequest = time.Now()
	return entry.value, nil, true
}

// markCounting marks the cached keys as being counted, until ended is called. Other requests then wait instead of
// counting too. Keys that are not cached are not marked, because their totals may have few hosts.
func (k *totalsCache[K, V]) markCounting(of []K) (ended func()) {
	k.mu.Lock()
	defer k.mu.Unlock()
	done := make(chan struct{})
	var mine []*cachedTotal[V]
	for _, key := range of {
		if entry := k.entries[key]; entry != nil && entry.done == nil {
			entry.done = done
			mine = append(mine, entry)
		}
	}
	return func() {
		k.mu.Lock()
		defer k.mu.Unlock()
		for _, entry := range mine {
			entry.done = nil
		}
		close(done)
	}
}

// storeTotal caches a total whose count started at began, if it covers many hosts and is newer than the cached one. A
// total of few hosts is removed from the cache.
func (k *totalsCache[K, V]) storeTotal(of K, v V, began time.Time) {
	k.mu.Lock()
	defer k.mu.Unlock()
	entry := k.entries[of]
	switch {
	case k.hosts(v) <= maxUncachedHosts:
		delete(k.entries, of)
	case entry == nil:
		k.startCaching(of, &cachedTotal[V]{value: v, at: began, lastRequest: began}, pauseAfterCount(began))
	case began.After(entry.at):
		entry.value, entry.at = v, began
	}
}

// pauseAfterCount returns the pause between a count that started at began and the next one. Counts start
// refreshInterval apart, so that the next count ends before the total is too old. After a slow count the pause is as
// long as the count took, to limit the load on the database.
func pauseAfterCount(began time.Time) time.Duration {
	took := time.Since(began)
	return max(refreshInterval-took, took)
}

// countInBackground computes one total outside a request, and returns a panic as an error.
func (k *totalsCache[K, V]) countInBackground(ctx context.Context, of K) (now map[K]V, err error) {
	defer store.RecoverAsError(&err)
	return k.count(ctx, []K{of})
}

// refreshUntilIdle refreshes a cached total until no request has read it for idleTimeout.
func (k *totalsCache[K, V]) refreshUntilIdle(of K, entry *cachedTotal[V]) {
	k.mu.Lock()
	if k.entries[of] == entry && time.Since(entry.lastRequest) > idleTimeout {
		delete(k.entries, of)
	}
	was, shown, over := entry.value, !entry.at.IsZero(), k.entries[of] != entry
	k.mu.Unlock()
	if over {
		return
	}
	began := time.Now()
	defer func() { time.AfterFunc(pauseAfterCount(began), func() { k.refreshUntilIdle(of, entry) }) }()
	defer k.markCounting([]K{of})()
	ctx, cancel := context.WithTimeout(context.Background(), refreshTimeout)
	defer cancel()
	now, err := k.countInBackground(ctx, of)
	if err != nil {
		return // the value expires, and the next request reports the error
	}
	k.storeTotal(of, now[of], began)
	if shown && k.changed != nil {
		k.changed(of, was, now[of])
	}
}
