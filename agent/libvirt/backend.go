// Package libvirt is the agent's real backend. It runs QEMU guests through this machine's libvirtd, over its local
// socket. Only this package and its subpackages import go-libvirt or libvirtxml. Stock virsh remains usable: elements
// that an administrator adds to a definition are preserved.
//
// This package has the jobs of VMs, snapshots, disk migrations and volumes, and the host's report. Its subpackages are:
//   - conn: connections to libvirtd, RPC helpers, events, classification of errors
//   - domxml: translation between VM specs and domain definitions
//   - storage: storage pools, block pools, the volumes of pools on this host
//   - network: networks, bridges, network filters and their counters
//   - guest: guest agents, addresses of guests, health checks of ports and programs
//   - migration: messages, sockets and parameters of live migrations
//   - hostfile: files on storage that may hang
//   - watch, locks: cached readings, locks of jobs
//
// The backend has one connection for state and one for events. Every job, every pool check and every other call that
// may hang opens its own connection, which takes a millisecond on a local socket. So a hung pool or guest delays
// neither the state reads nor the jobs of other pools and guests.
package libvirt

import (
	"context"
	"log/slog"
	"sync"

	"quantix/agent/fetch"
	machine "quantix/agent/hardware"
	"quantix/agent/hypervisor"
	"quantix/agent/libvirt/conn"
	"quantix/agent/libvirt/firmware"
	"quantix/agent/libvirt/guest"
	"quantix/agent/libvirt/hostfile"
	"quantix/agent/libvirt/locks"
	"quantix/agent/libvirt/network"
	"quantix/agent/libvirt/storage"
	"quantix/agent/libvirt/watch"
	"quantix/agent/pooldir"
	"quantix/agent/seed"
	"quantix/agent/state"
	"quantix/internal/fleet"
	"quantix/internal/wire"
)

// DefaultSocket is libvirtd's local socket. It belongs to the monolithic daemon, or to virtproxyd in front of
// virtqemud.
const DefaultSocket = "/run/libvirt/libvirt-sock"

// Options configures Open.
type Options struct {
	Socket     string               // empty: DefaultSocket
	Log        *slog.Logger         // nil: slog.Default()
	PoolRoots  pooldir.PoolRoots    // directories that may hold pools
	PoolBook   *state.PoolRecords   // persisted facts about pools; nil: start empty
	Filters    *state.FilterDigests // persisted facts about network filters; nil: start empty
	Downloader *fetch.Client        // HTTP client for downloads; nil: a client for public addresses only
	Seeds      seed.Store           // first-boot seeds of guests
	Devices    machine.HostDevices  // host devices that guests use
	Firmware   firmware.Files       // files of UEFI variables and TPMs
}

// Backend implements hypervisor.Hypervisor. Its methods may be called from several goroutines.
type Backend struct {
	log        *slog.Logger
	daemon     *conn.Daemon
	cancelRun  context.CancelFunc // ends the daemon's RunContext
	goroutines sync.WaitGroup

	vmLocks     locks.ByKey[fleet.VMID]
	volumeLocks locks.Files
	// snapshotLocks locks the snapshot files of each VM while new disks are copied from these files.
	snapshotLocks   locks.Files
	fetcher         *fetch.Client
	seeds           seed.Store
	devices         machine.HostDevices
	firmware        firmware.Files
	domains         domainCache
	assignedPools   storage.AssignedPools
	ioErrors        ioErrors
	watchdogs       watchdogExpiries
	agents          *guest.Agents
	diskSizes       hostfile.DiskSizes
	fileWatches     fileWatches
	pools           *storage.Pools
	networks        *network.Networks
	filters         *network.Filters
	capabilityWatch watch.Value[capabilities]

	meterWatch watch.Value[[]hypervisor.VMLoad]

	mu              sync.Mutex
	stateConnection *conn.Conn // state connection; nil while libvirtd is unreachable, for the reason in lostReason
	lostReason      error
	version         string
	lastState       *wire.State // the host state that the newest HostState call returned
}

var _ hypervisor.Hypervisor = (*Backend)(nil)

// Open connects to libvirtd. If libvirtd is unreachable, now or later, the backend retries, first quickly and then
// every second. Open does not fail then, because after a power failure the agent may start before libvirtd.
func Open(ctx context.Context, o Options) (*Backend, error) {
	if o.Socket == "" {
		o.Socket = DefaultSocket
	}
	if o.Log == nil {
		o.Log = slog.Default()
	}
	if o.PoolBook == nil {
		book, err := state.OpenPoolRecords("")
		if err != nil {
			return nil, err
		}
		o.PoolBook = book
	}
	if o.Filters == nil {
		book, err := state.OpenFilterDigests("")
		if err != nil {
			return nil, err
		}
		o.Filters = book
	}
	if o.Downloader == nil {
		o.Downloader = fetch.New(fetch.Settings{})
	}
	b := &Backend{log: o.Log, fetcher: o.Downloader, seeds: o.Seeds, devices: o.Devices, firmware: o.Firmware}
	runContext, cancel := context.WithCancel(context.Background())
	b.daemon, b.cancelRun = conn.NewDaemon(runContext, o.Socket), cancel
	b.networks, b.filters = network.NewNetworks(b.daemon, b.networkGuests), network.NewFilters(b.daemon, b.networkGuests, o.Filters)
	b.agents = guest.NewAgents(b.daemon, b.log, b.readGuest)
	b.pools = storage.NewPools(b.daemon, b.log, o.PoolRoots, o.PoolBook, b.poolGuests)
	b.diskSizes.IsReplaced = b.isPathReplaced
	link, err := b.connect(ctx)
	if err != nil {
		b.setUnreachable(err)
	}
	b.goroutines.Go(func() { b.reconnectLoop(link) })
	return b, nil
}

// Close ends all connections. Guests keep running.
func (b *Backend) Close() error {
	b.cancelRun()
	b.goroutines.Wait()
	return nil
}

// stateConn returns the libvirt connection that reads the state of VMs, pools and networks. The error says why there is
// none.
func (b *Backend) stateConn(ctx context.Context) (*conn.Conn, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.stateConnection == nil {
		return nil, b.lostReason
	}
	return b.stateConnection, nil
}
