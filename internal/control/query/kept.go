package query

import (
	"context"
	"maps"
	"sync"
	"time"

	"quantix/internal/control/store"
)

const (
	// wide is up to how many hosts are asked anew for each who wants to know what they add up to.
	wide = 1000
	// keepFor is after how long what more hosts add up to is added up again, and keepAtMost how old it may be: who asks after that waits.
	keepFor, keepAtMost = 3 * time.Second, 5 * time.Second
	// keepWarm is how long after somebody asked it is still added up, for who asks next.
	keepWarm  = time.Minute
	keptLimit = 10 * time.Second // for adding it up behind those who ask
)

// kept holds what many hosts add up to, by what it is about: it is added up now and then, however many ask, and behind them, so that pages of a
// large fleet cost what those of a small one do.
type kept[K comparable, V any] struct {
	count   func(ctx context.Context, of []K) (map[K]V, error)
	hosts   func(V) int            // that add up to it
	changed func(of K, was, now V) // tells of what nobody was told of while was was shown
	mu      sync.Mutex
	of      map[K]*keeping[V]
}

type keeping[V any] struct {
	value     V
	at, asked time.Time
	counted   chan struct{} // closed when the count under way has ended; nil: none is
}

// get is what each of these adds up to, as it is known or else now. Within a transaction it is as that sees it.
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

// one is get of one.
func (k *kept[K, V]) one(ctx context.Context, of K) (V, error) {
	out, err := k.get(ctx, of)
	return out[of], err
}

// warm has it added up for those who will ask.
func (k *kept[K, V]) warm(of K) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.of[of] == nil {
		k.begin(of, &keeping[V]{asked: time.Now()}, 0)
	}
}

// begin begins to keep it. Whoever calls it has locked all.
func (k *kept[K, V]) begin(of K, one *keeping[V], after time.Duration) {
	if k.of == nil {
		k.of = map[K]*keeping[V]{}
	}
	k.of[of] = one
	time.AfterFunc(after, func() { k.again(of, one) })
}

// known is what is known of it, and where that is too old what the count under way finds: those who ask meanwhile do
// not all count for themselves. Of few enough hosts, and within a transaction, that is never anything.
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

// latest is what is known of it now, and, where that is too old, the end of the count under way.
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

// counting notes that these are being counted, until ended is called. What is not kept yet may be of few hosts, which
// each counts anew.
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

// keep keeps what was added up since began, where it is over many hosts and nothing newer is known, and has it added up again in time.
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

// pauseAfter is how long after a count that began then the next one waits: keepFor from one beginning to the next, so
// that a slow count is ready before its value is outdated, but as long as the count took, so that the database has
// rest.
func pauseAfter(began time.Time) time.Duration {
	took := time.Since(began)
	return max(keepFor-took, took)
}

// countBehind is count where no request is there to take a panic.
func (k *kept[K, V]) countBehind(ctx context.Context, of K) (now map[K]V, err error) {
	defer store.Recovered(&err)
	return k.count(ctx, []K{of})
}

// again adds it up for those who will ask, until nobody has for long.
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
		return // what is known grows too old, and who asks then sees why
	}
	k.keep(of, now[of], began)
	if shown && k.changed != nil {
		k.changed(of, was, now[of])
	}
}
