package browse

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

// known is what is known of it; of few enough hosts, and within a transaction, that is never anything.
func (k *kept[K, V]) known(ctx context.Context, of K) (v V, ok bool) {
	if store.Joined(ctx) {
		return v, false
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	one := k.of[of]
	if one == nil || time.Since(one.at) > keepAtMost {
		return v, false
	}
	one.asked = time.Now()
	return one.value, true
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
		k.begin(of, &keeping[V]{v, began, began}, keepFor)
	case began.After(one.at):
		one.value, one.at = v, began
	}
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
	defer time.AfterFunc(keepFor, func() { k.again(of, one) })
	ctx, cancel := context.WithTimeout(context.Background(), keptLimit)
	defer cancel()
	began := time.Now()
	now, err := k.countBehind(ctx, of)
	if err != nil {
		return // what is known grows too old, and who asks then sees why
	}
	k.keep(of, now[of], began)
	if shown && k.changed != nil {
		k.changed(of, was, now[of])
	}
}
