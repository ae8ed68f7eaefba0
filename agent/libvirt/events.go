package libvirt

import (
	"context"
	"fmt"
	"sync"

	golibvirt "github.com/digitalocean/go-libvirt"
)

// subscribedEvents are the events that can change a VM's status. go-libvirt delivers no events of networks and pools,
// so Snapshot polls networks and pools.
var subscribedEvents = []golibvirt.DomainEventID{
	golibvirt.DomainEventIDLifecycle, golibvirt.DomainEventIDReboot, golibvirt.DomainEventIDIoErrorReason,
	golibvirt.DomainEventIDDiskChange, golibvirt.DomainEventIDTrayChange, golibvirt.DomainEventIDDeviceAdded,
	golibvirt.DomainEventIDDeviceRemoved, golibvirt.DomainEventIDAgentLifecycle, golibvirt.DomainEventIDMetadataChange,
	golibvirt.DomainEventIDWatchdog, golibvirt.DomainEventIDDeviceRemovalFailed, golibvirt.DomainEventIDBalloonChange,
}

// subscribe forwards events as wake-ups until the connection is lost. It fails only if libvirt lacks lifecycle events,
// because an older libvirt may lack other kinds of events.
func (b *Backend) subscribe(ctx context.Context, c *conn) error {
	for _, id := range subscribedEvents {
		// The context never ends. Otherwise go-libvirt would unsubscribe while the connection closes, and that race
		// crashes libvirtd 9.0.
		events, err := call(ctx, c, func(l *golibvirt.Libvirt) (<-chan any, error) {
			return l.SubscribeEvents(context.Background(), id, nil)
		})
		switch {
		case err != nil && (id == golibvirt.DomainEventIDLifecycle || !isLibvirtError(err)):
			return fmt.Errorf("subscribe to events: %w", err)
		case err != nil:
			b.log.Debug("libvirt does not offer an event", "event", int(id), "error", err)
			continue
		}
		go func() {
			for e := range events {
				if io, ok := e.(*golibvirt.DomainEventCallbackIOErrorReasonMsg); ok {
					b.ioErrors.record(io.Msg)
				}
				if watchdog, ok := e.(*golibvirt.DomainEventCallbackWatchdogMsg); ok {
					b.watchdogs.countExpiry(watchdog.Msg.Dom.UUID)
				}
				b.domains.invalidate(eventDomain(e))
				b.subscribers.wakeAll()
			}
		}()
	}
	return nil
}

// eventDomain returns the UUID of the event's domain, or the zero UUID for an unknown kind of event.
func eventDomain(event any) golibvirt.UUID {
	switch e := event.(type) {
	case *golibvirt.DomainEventCallbackLifecycleMsg:
		return e.Msg.Dom.UUID
	case *golibvirt.DomainEventCallbackRebootMsg:
		return e.Msg.Dom.UUID
	case *golibvirt.DomainEventCallbackIOErrorReasonMsg:
		return e.Msg.Dom.UUID
	case *golibvirt.DomainEventCallbackDiskChangeMsg:
		return e.Msg.Dom.UUID
	case *golibvirt.DomainEventCallbackTrayChangeMsg:
		return e.Msg.Dom.UUID
	case *golibvirt.DomainEventCallbackDeviceAddedMsg:
		return e.Dom.UUID
	case *golibvirt.DomainEventCallbackDeviceRemovedMsg:
		return e.Msg.Dom.UUID
	case *golibvirt.DomainEventCallbackDeviceRemovalFailedMsg:
		return e.Dom.UUID
	case *golibvirt.DomainEventCallbackAgentLifecycleMsg:
		return e.Dom.UUID
	case *golibvirt.DomainEventCallbackMetadataChangeMsg:
		return e.Dom.UUID
	case *golibvirt.DomainEventCallbackWatchdogMsg:
		return e.Msg.Dom.UUID
	case *golibvirt.DomainEventCallbackBalloonChangeMsg:
		return e.Msg.Dom.UUID
	}
	return golibvirt.UUID{}
}

// subscribers holds the channels that Changes returned.
type subscribers struct {
	mu  sync.Mutex
	all map[chan struct{}]bool
}

// WatchChanges implements hypervisor.Telemetry.
func (b *Backend) WatchChanges(ctx context.Context) <-chan struct{} { return b.subscribers.add(ctx) }

func (s *subscribers) add(ctx context.Context) <-chan struct{} {
	ch := make(chan struct{}, 1)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.all == nil {
		s.all = map[chan struct{}]bool{}
	}
	s.all[ch] = true
	context.AfterFunc(ctx, func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		delete(s.all, ch)
	})
	return ch
}

func (s *subscribers) wakeAll() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for ch := range s.all {
		select {
		case ch <- struct{}{}:
		default:
		}
	}
}
