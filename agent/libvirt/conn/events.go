package conn

import (
	"context"
	"fmt"
	"log/slog"

	golibvirt "github.com/digitalocean/go-libvirt"
)

// subscribedEvents are the events that can change a VM's status. go-libvirt delivers no events of networks and pools,
// so HostState polls networks and pools.
var subscribedEvents = []golibvirt.DomainEventID{
	golibvirt.DomainEventIDLifecycle, golibvirt.DomainEventIDReboot, golibvirt.DomainEventIDIoErrorReason,
	golibvirt.DomainEventIDDiskChange, golibvirt.DomainEventIDTrayChange, golibvirt.DomainEventIDDeviceAdded,
	golibvirt.DomainEventIDDeviceRemoved, golibvirt.DomainEventIDAgentLifecycle, golibvirt.DomainEventIDMetadataChange,
	golibvirt.DomainEventIDWatchdog, golibvirt.DomainEventIDDeviceRemovalFailed, golibvirt.DomainEventIDBalloonChange,
}

// SubscribeEvents calls handle for each event with the UUID of the event's domain, until the connection is lost. It
// fails only if libvirt lacks lifecycle events, because an older libvirt may lack other kinds of events.
func (c *Conn) SubscribeEvents(ctx context.Context, log *slog.Logger, handle func(event any, domain golibvirt.UUID)) error {
	for _, id := range subscribedEvents {
		// The context never ends. Otherwise go-libvirt would unsubscribe while the connection closes, and that race
		// crashes libvirtd 9.0.
		events, err := Call(ctx, c, func(l *golibvirt.Libvirt) (<-chan any, error) {
			return l.SubscribeEvents(context.Background(), id, nil)
		})
		switch {
		case err != nil && (id == golibvirt.DomainEventIDLifecycle || !IsLibvirtError(err)):
			return fmt.Errorf("subscribe to events: %w", err)
		case err != nil:
			log.Debug("libvirt does not offer an event", "event", int(id), "error", err)
			continue
		}
		go func() {
			for e := range events {
				handle(e, eventDomain(e))
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
