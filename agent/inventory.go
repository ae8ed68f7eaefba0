package agent

import (
	"context"
	"reflect"
	"sync"
	"time"

	"quantix/internal/fleet"
)

// inventory holds the hardware from the newest read.
type inventory struct {
	read            func(context.Context) (fleet.Inventory, error)
	refreshRequests chan struct{} // buffer of one
	firstRead       chan struct{} // closed after the hardware was first read

	mu     sync.Mutex
	known  bool
	newest fleet.Inventory
}

func newInventory(read func(context.Context) (fleet.Inventory, error)) *inventory {
	return &inventory{read: read, refreshRequests: make(chan struct{}, 1), firstRead: make(chan struct{})}
}

func (i *inventory) refresh() {
	select {
	case i.refreshRequests <- struct{}{}:
	default:
	}
}

// wait returns the inventory once it has been read, or ctx's error.
func (i *inventory) wait(ctx context.Context) (fleet.Inventory, error) {
	select {
	case <-i.firstRead:
		return i.current(), nil
	case <-ctx.Done():
		return fleet.Inventory{}, ctx.Err()
	}
}

func (i *inventory) current() fleet.Inventory {
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.newest
}

// bootID returns the ID of the host's current boot; empty: not known yet.
func (a *Agent) bootID() string { return a.inventory.current().BootID }

// store stores the hardware as read now, and reports whether it differs from the previous one.
func (i *inventory) store(v fleet.Inventory) bool {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.known && reflect.DeepEqual(i.newest, v) {
		return false
	}
	if !i.known {
		i.known = true
		close(i.firstRead)
	}
	i.newest = v
	return true
}

// inventoryLoop reads the hardware at the start, each period and on refresh.
func (a *Agent) inventoryLoop(ctx context.Context) {
	wait := newBackoff(a.timing.retry, time.Minute)
	for ctx.Err() == nil {
		next := a.timing.inventoryInterval
		within, cancel := context.WithTimeout(ctx, a.timing.inventoryReadLimit)
		v, err := a.inventory.read(within)
		cancel()
		if err != nil {
			a.log.Warn("The hardware cannot be read; trying again.", "error", err)
			next = wait.NextBackOff()
		} else {
			wait.Reset()
			if a.inventory.store(v) {
				a.reports.trigger()
			}
		}
		t := time.NewTimer(next)
		select {
		case <-ctx.Done():
		case <-t.C:
		case <-a.inventory.refreshRequests:
		}
		t.Stop()
	}
}
