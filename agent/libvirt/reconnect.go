package libvirt

import (
	"context"
	"fmt"
	"time"

	golibvirt "github.com/digitalocean/go-libvirt"

	"quantix/agent/hypervisor"
	"quantix/agent/libvirt/conn"
	"quantix/agent/libvirt/diagnostics"
)

const (
	fastRetry         = 50 * time.Millisecond // first interval, because a restarted libvirtd is up again quickly
	fastRetryDuration = 2 * time.Second
	retryPeriod       = time.Second
	pingPeriod        = 5 * time.Second // go-libvirt has no keepalive
)

// libvirtConnections is the state connection and the event connection to libvirtd.
type libvirtConnections struct{ state, events *conn.Conn }

func (l *libvirtConnections) close() {
	l.state.Disconnect()
	l.events.Disconnect()
}

// connect opens both connections, subscribes to events and records libvirt's version.
func (b *Backend) connect(ctx context.Context) (*libvirtConnections, error) {
	ctx, cancel := context.WithTimeout(ctx, conn.CallTimeout)
	defer cancel()
	reader, err := b.daemon.Dial(ctx)
	if err != nil {
		return nil, err
	}
	events, err := b.daemon.Dial(ctx)
	if err != nil {
		reader.Disconnect()
		return nil, err
	}
	reader.Share()
	events.Share()
	l := &libvirtConnections{state: reader, events: events}
	version, err := conn.Call(ctx, reader, conn.Versions)
	if err == nil {
		err = events.SubscribeEvents(ctx, b.log, b.handleEvent)
	}
	if err != nil {
		l.close()
		return nil, fmt.Errorf("connect to libvirt: %w", err)
	}
	b.domains.clear() // events may have been missed
	b.pools.ExpireAll()
	b.capabilityWatch.Expire()
	b.mu.Lock()
	defer b.mu.Unlock()
	b.stateConnection, b.lostReason, b.version = reader, nil, version
	return l, nil
}

// Diagnostics implements hypervisor.Hypervisor.
func (b *Backend) Diagnostics() []hypervisor.Diagnostic { return diagnostics.List(b.daemon) }

// Ping implements hypervisor.Telemetry.
func (b *Backend) Ping(ctx context.Context) error { return b.daemon.Ping(ctx) }

// reconnectLoop reconnects after each loss of the connections, until Close. l holds the first connections, or is nil.
func (b *Backend) reconnectLoop(l *libvirtConnections) {
	for {
		if l == nil {
			if l = b.reconnect(); l == nil {
				return
			}
			b.log.Info("connected to libvirt")
			b.daemon.Subscribers.WakeAll()
		}
		why := b.waitConnectionLost(l)
		l.close()
		if b.daemon.RunContext.Err() != nil {
			return
		}
		b.setUnreachable(why)
		l = nil
	}
}

// setUnreachable records why libvirt is unreachable, and wakes the subscribers.
func (b *Backend) setUnreachable(why error) {
	b.log.Warn("libvirt is unreachable; trying again (\"quantix doctor agent\" lists what is missing)", "error", why)
	b.mu.Lock()
	b.stateConnection, b.lostReason = nil, why
	b.mu.Unlock()
	b.daemon.Subscribers.WakeAll()
}

// waitConnectionLost waits for the loss of a connection, or for Close, and returns the reason. It pings libvirtd, so
// that a hanging libvirtd counts as lost too.
func (b *Backend) waitConnectionLost(l *libvirtConnections) error {
	ping := time.NewTicker(pingPeriod)
	defer ping.Stop()
	for {
		select {
		case <-b.daemon.RunContext.Done():
			return b.daemon.RunContext.Err()
		case <-l.state.Closed():
			return conn.ErrConnectionLost
		case <-l.events.Closed():
			return conn.ErrConnectionLost
		case <-ping.C:
		}
		for _, c := range []*conn.Conn{l.state, l.events} {
			ctx, cancel := context.WithTimeout(b.daemon.RunContext, conn.CallTimeout)
			_, err := conn.Call(ctx, c, (*golibvirt.Libvirt).ConnectGetLibVersion)
			cancel()
			if err != nil {
				return err
			}
		}
	}
}

// reconnect retries until both connections are open. It returns nil after Close.
func (b *Backend) reconnect() *libvirtConnections {
	retry := time.NewTicker(fastRetry)
	defer retry.Stop()
	for lost := time.Now(); ; {
		l, err := b.connect(b.daemon.RunContext)
		if err == nil {
			return l
		}
		b.mu.Lock()
		b.lostReason = err
		b.mu.Unlock()
		if time.Since(lost) > fastRetryDuration {
			retry.Reset(retryPeriod)
		}
		select {
		case <-b.daemon.RunContext.Done():
			return nil
		case <-retry.C:
		}
	}
}

// handleEvent records an event of a domain, and wakes the subscribers.
func (b *Backend) handleEvent(event any, domain golibvirt.UUID) {
	if io, ok := event.(*golibvirt.DomainEventCallbackIOErrorReasonMsg); ok {
		b.ioErrors.record(io.Msg)
	}
	if watchdog, ok := event.(*golibvirt.DomainEventCallbackWatchdogMsg); ok {
		b.watchdogs.countExpiry(watchdog.Msg.Dom.UUID)
	}
	b.domains.invalidate(domain)
	b.daemon.Subscribers.WakeAll()
}

// WatchChanges implements hypervisor.Telemetry.
func (b *Backend) WatchChanges(ctx context.Context) <-chan struct{} {
	return b.daemon.Subscribers.Add(ctx)
}
