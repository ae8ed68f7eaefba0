// Package libvirt is the real backend of an agent: QEMU guests of the libvirtd on this machine, over its local socket.
// Nothing else imports go-libvirt or libvirtxml. Stock virsh stays valid beside it: what an administrator adds to a
// definition is kept.
//
// Connections: one reads state, one receives events, and every order, every look at a pool and whatever else may hang
// has one of its own (a millisecond on a local socket). So a hung pool or guest stops neither the state of the others nor orders to them.
package libvirt

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"quantix/agent"
	"quantix/agent/fetch"
	machine "quantix/agent/hardware"
	"quantix/agent/seed"
	"quantix/internal/fleet"
	"quantix/internal/wire"
)

// DefaultSocket is where libvirtd listens, be it the monolithic one or virtqemud by way of virtproxyd.
const DefaultSocket = "/run/libvirt/libvirt-sock"

// callLimit is how long a new connection, or a call on the state or event connection, may take before it is given up.
const callLimit = 10 * time.Second

// Options says which libvirtd to use.
type Options struct {
	Socket  string            // empty: DefaultSocket
	Log     *slog.Logger      // nil: slog.Default()
	Roots   agent.PoolRoots   // where pools may be
	Book    *agent.PoolBook   // what is remembered of pools; nil: nothing from before
	Filters *agent.FilterBook // what is remembered of network filters; nil: nothing from before
	Fetch   *fetch.Client     // what downloads; nil: one that reaches the Internet alone
	Seeds   seed.Store        // what guests read when they first start
	Devices machine.Devices   // what guests have of the host
}

// Backend implements agent.Hypervisor. Its methods may be called from several goroutines.
type Backend struct {
	socket string
	log    *slog.Logger
	life   context.Context // ends with Close
	end    context.CancelFunc
	ended  sync.WaitGroup

	subscribers subscribers
	vms         locks[fleet.VMID]
	volumeLocks fileLocks
	// snapshotsRead keeps the files of VMs' snapshots, by the VM, while new disks are copied from them.
	snapshotsRead fileLocks
	fetcher       *fetch.Client
	seeds         seed.Store
	devices       machine.Devices
	domains       domainCache
	assigned      assigned
	ioErrors      ioErrors
	watchdogs     watchdogs
	execs         execs
	addresses     watch[map[fleet.VMID]cards]
	heard         heard
	guests        guests
	disks         diskSizes
	files         fileWatches
	pools         poolWatches
	nets          networkWatch
	filterLocks   locks[fleet.SecurityGroupID]
	filters       *agent.FilterBook
	filterMu      sync.Mutex // held while a filter is written and remembered, or compared with what is remembered
	changed       watch[map[string]string]
	caps          watch[capabilities]

	metering watch[[]wire.Meter]
	counting watch[[]agent.CountedNIC]

	mu      sync.Mutex
	reader  *conn // nil: libvirtd is away, see lost
	lost    error
	version string
	last    *wire.State // what the newest Snapshot said
}

var _ agent.Hypervisor = (*Backend)(nil)

// Open connects to libvirtd. Where it is away, now or later, the backend tries again, soon at first, then each second: after a power
// failure nobody says in which order the two start.
func Open(ctx context.Context, o Options) (*Backend, error) {
	if o.Socket == "" {
		o.Socket = DefaultSocket
	}
	if o.Log == nil {
		o.Log = slog.Default()
	}
	if o.Book == nil {
		book, err := agent.OpenPoolBook("")
		if err != nil {
			return nil, err
		}
		o.Book = book
	}
	if o.Filters == nil {
		book, err := agent.OpenFilterBook("")
		if err != nil {
			return nil, err
		}
		o.Filters = book
	}
	if o.Fetch == nil {
		o.Fetch = fetch.New(fetch.Settings{})
	}
	b := &Backend{socket: o.Socket, log: o.Log, fetcher: o.Fetch, seeds: o.Seeds, devices: o.Devices, filters: o.Filters, pools: poolWatches{roots: o.Roots, book: o.Book}}
	b.disks.odd = b.isOdd
	b.life, b.end = context.WithCancel(context.Background())
	link, err := b.connect(ctx)
	if err != nil {
		b.away(err)
	}
	b.ended.Go(func() { b.keepConnected(link) })
	return b, nil
}

// Close ends all connections. Guests run on.
func (b *Backend) Close() error {
	b.end()
	b.ended.Wait()
	return nil
}

// reading returns the state connection, or why there is none.
func (b *Backend) reading(ctx context.Context) (*conn, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.reader == nil {
		return nil, b.lost
	}
	return b.reader, nil
}

// order opens a connection for one order and closes it after.
func (b *Backend) order(ctx context.Context, f func(context.Context, *conn) error) error {
	ctx, cancel := b.alive(ctx)
	defer cancel()
	c, err := dial(ctx, b.socket)
	if err != nil {
		return err
	}
	defer c.hangUp()
	defer b.subscribers.wake()
	return f(ctx, c)
}

// inAct puts what was being done before an error, as "start web-01"; a refusal is a sentence already.
func inAct(act string, err error) error {
	var refusal *fleet.Error
	if err == nil || errors.As(err, &refusal) {
		return err
	}
	return fmt.Errorf("%s: %w", act, err)
}

// alive is ctx that also ends with Close.
func (b *Backend) alive(ctx context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(ctx)
	stop := context.AfterFunc(b.life, cancel)
	return ctx, func() { stop(); cancel() }
}
