// Package link manages the host's network devices that some network modes need: bridges and tunnels of overlays, and
// bridges on one of the host's own devices. It marks its devices with the network's ID, and changes no other device
// except the one that a network names. After a boot it recreates the devices before the portal is reached. A change
// that may cut the host off is rolled back if the portal is not reached afterwards.
package link

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os/exec"
	"slices"
	"sync"
	"time"

	"quantix/internal/fleet"
)

// Options configure Devices.
type Options struct {
	Dir           string        // the agent's data directory
	BootID        string        // id of the host's current boot
	PortalTimeout time.Duration // time to reach the portal after a change that may cut the host off; 0: 30 s
	// ReachPortal makes a new connection to the portal and returns nil once the portal has answered. The connection
	// uses only the given network device; empty: any device.
	ReachPortal func(ctx context.Context, device string) error
	// Portal is the host name in the portal's address.
	Portal string
	// RollbackCommand returns the command of the rollback process, which undoes a change that is not confirmed within
	// timeout.
	RollbackCommand func(timeout time.Duration) (*exec.Cmd, error)
	Log             *slog.Logger
}

// kernel is the host's kernel, or a fake one in tests.
type kernel interface {
	// read returns the host's devices for a network; with their routes if routes is true.
	read(n fleet.Network, routes bool) (hostState, error)
	runStep(step) error
	routeDevices(host string) (devices []string)      // devices through which this host reaches another
	virtualFunctions(device string) fleet.NetworkNICs // numbers of enabled virtual functions and of those for guests
	checkOpenVSwitch(ctx context.Context, bridge string) error
}

// Devices manages the network devices of one host.
type Devices struct {
	options Options
	kernel  kernel
	log     *slog.Logger
	change  sync.Mutex // one change at a time

	mu    sync.Mutex
	state networksFile
}

// Open reads the recorded networks of the host, and rolls back an unconfirmed change of an earlier agent.
func Open(o Options) (*Devices, error) { return open(o, newKernel()) }

func open(o Options, kernel kernel) (*Devices, error) {
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.PortalTimeout == 0 {
		o.PortalTimeout = 30 * time.Second
	}
	k := &Devices{options: o, kernel: kernel, log: o.Log}
	if _, err := loadJSON(o.Dir, stateFile, &k.state); err != nil {
		return nil, err
	}
	if k.state.Networks == nil {
		k.state.Networks = map[fleet.NetworkID]appliedNetwork{}
	}
	if err := k.rollBackUnconfirmedChange(); err != nil {
		return nil, fmt.Errorf("undo an unconfirmed change of the network: %w", err)
	}
	return k, nil
}

// Apply creates the network's devices on this host. job is the job's ID: a job whose change was rolled back fails at
// once when repeated.
func (k *Devices) Apply(ctx context.Context, job string, n fleet.Network) error {
	k.change.Lock()
	defer k.change.Unlock()
	switch n.Spec.Mode {
	case fleet.NetworkVXLAN, fleet.NetworkUplink:
	case fleet.NetworkOVS:
		return k.kernel.checkOpenVSwitch(ctx, n.Spec.Bridge)
	default:
		if n.Spec.Mode.Info().HostAddresses {
			return nil
		}
		p, err := k.kernel.read(n, true)
		if err != nil {
			return err
		}
		return checkDevicesPresent(n, p, k.nicCapacity(n, p))
	}
	if u, ok := k.readRolledBackChange(n.ID); ok && u.JobID == job {
		return fleet.RefusalError(u.Words)
	}
	if err := k.createDevices(ctx, job, n, true); err != nil {
		return err
	}
	return k.recordAppliedNetwork(n)
}

// createDevices creates or updates the network's devices: for a user's job if byJob is set, else to restore the devices
// after a boot.
func (k *Devices) createDevices(ctx context.Context, job string, n fleet.Network, byJob bool) error {
	p, err := k.kernel.read(n, true)
	if err != nil {
		return err
	}
	var steps []step
	moves := false
	if n.Spec.Mode == fleet.NetworkVXLAN {
		steps, err = planOverlay(n, p)
	} else {
		if !byJob {
			k.restoreAddresses(n, p.uplink)
		}
		steps, moves, err = planUplink(n, p)
	}
	if err != nil {
		return err
	}
	if byJob && moves {
		onPathToPortal := k.isPathToPortal(n.Spec.Device, n.BridgeDevice())
		if onPathToPortal || len(p.uplink.Addresses) > 0 || p.bridge != nil && len(p.bridge.Addresses) > 0 {
			c := unconfirmedChange{JobID: job, Network: n, Before: stateBeforeApply(p)}
			return k.changeWithRollback(ctx, c, steps, onPathToPortal, n.BridgeDevice())
		}
	}
	if err := k.runSteps(steps, time.Time{}); err != nil {
		if p.bridge == nil {
			err = errors.Join(err, k.removeIncompleteDevices(n))
		}
		return err
	}
	return nil
}

// restoreAddresses sets the addresses and routes of a device without addresses to the recorded ones.
func (k *Devices) restoreAddresses(n fleet.Network, d *device) {
	if d == nil || n.Spec.VLAN > 0 || len(d.Addresses) > 0 {
		return
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	d.Addresses, d.Routes = k.state.Networks[n.ID].Addresses, k.state.Networks[n.ID].Routes
}

// isPathToPortal reports whether the host reaches its portal through one of the devices.
func (k *Devices) isPathToPortal(devices ...string) bool {
	return slices.ContainsFunc(k.kernel.routeDevices(k.options.Portal), func(d string) bool { return slices.Contains(devices, d) })
}

// removeIncompleteDevices removes the incomplete devices of a failed creation.
func (k *Devices) removeIncompleteDevices(n fleet.Network) error {
	p, err := k.kernel.read(n, true)
	if err != nil {
		return err
	}
	steps, _, err := planRelease(n, p)
	if err != nil {
		return err
	}
	return k.runSteps(steps, time.Time{})
}

// runSteps runs the steps in order. It starts no step after the deadline, because the rollback process may have undone
// the change by then. A zero deadline sets no limit.
func (k *Devices) runSteps(steps []step, deadline time.Time) error {
	for _, s := range steps {
		if !deadline.IsZero() && !time.Now().Before(deadline) {
			return stepError(s, errors.New("the time limit passed before this step, because the agent was delayed"))
		}
		if err := k.kernel.runStep(s); err != nil {
			return stepError(s, err)
		}
	}
	return nil
}

// Release removes the network's devices. Devices of another owner stay. job is the job's ID: a job whose change was
// rolled back fails at once when repeated.
func (k *Devices) Release(ctx context.Context, job string, n fleet.Network) error {
	k.change.Lock()
	defer k.change.Unlock()
	if !n.Spec.Mode.Info().CreatesDevices {
		return nil
	}
	if u, ok := k.readRolledBackChange(n.ID); ok && u.JobID == job {
		return fleet.RefusalError(u.Words)
	}
	p, err := k.kernel.read(n, true)
	if err != nil {
		return err
	}
	steps, moves, err := planRelease(n, p)
	if err != nil {
		return err
	}
	carries := k.isPathToPortal(n.BridgeDevice())
	if moves && (carries || len(p.bridge.Addresses) > 0) {
		c := unconfirmedChange{JobID: job, Network: n, Before: stateBeforeRelease(p)}
		err = k.changeWithRollback(ctx, c, steps, carries, n.Spec.Device)
	} else {
		err = k.runSteps(steps, time.Time{})
	}
	if err != nil {
		return err
	}
	return k.removeRecord(n.ID)
}

// Restore recreates the devices from before this boot of the host. It returns the errors of devices that could not be
// created, and may be repeated. A device that was created in this boot and then removed by somebody stays removed, and
// is reported.
func (k *Devices) Restore(ctx context.Context) error {
	k.change.Lock()
	defer k.change.Unlock()
	k.mu.Lock()
	due := map[fleet.NetworkID]appliedNetwork{}
	for id, s := range k.state.Networks {
		if s.Boot != k.options.BootID {
			due[id] = s
		}
	}
	k.mu.Unlock()
	if len(due) == 0 {
		return nil
	}
	var errs []error
	for id, s := range due {
		if err := k.createDevices(ctx, "", s.Network, false); err != nil {
			errs = append(errs, fmt.Errorf("recreate the devices of the network %s: %w", s.Network.Name, err))
			delete(due, id)
		}
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	for id, s := range due {
		s.Boot = k.options.BootID
		k.state.Networks[id] = s
	}
	return errors.Join(append(errs, saveJSON(k.options.Dir, stateFile, k.state))...)
}

// recordAppliedNetwork records the applied network, to restore its devices after the next boot.
func (k *Devices) recordAppliedNetwork(n fleet.Network) error {
	s := appliedNetwork{Network: n, Boot: k.options.BootID}
	if n.Spec.Mode == fleet.NetworkUplink && n.Spec.VLAN == 0 {
		if p, err := k.kernel.read(n, true); err == nil && p.bridge != nil {
			s.Addresses, s.Routes = p.bridge.Addresses, p.bridge.Routes
		}
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	k.state.Networks[n.ID] = s
	return errors.Join(saveJSON(k.options.Dir, stateFile, k.state), k.clearRolledBackChange(n.ID))
}

func (k *Devices) removeRecord(id fleet.NetworkID) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	delete(k.state.Networks, id)
	return errors.Join(saveJSON(k.options.Dir, stateFile, k.state), k.clearRolledBackChange(id))
}

// readRolledBackChange reads the file each time it is called, because the rollback process may have written the file.
func (k *Devices) readRolledBackChange(id fleet.NetworkID) (rolledBackChange, bool) {
	all := map[fleet.NetworkID]rolledBackChange{}
	if _, err := loadJSON(k.options.Dir, rolledBackFile, &all); err != nil {
		return rolledBackChange{}, false
	}
	u, ok := all[id]
	return u, ok
}

func (k *Devices) clearRolledBackChange(id fleet.NetworkID) error {
	all := map[fleet.NetworkID]rolledBackChange{}
	if _, err := loadJSON(k.options.Dir, rolledBackFile, &all); err != nil {
		return err
	}
	if _, ok := all[id]; !ok {
		return nil
	}
	delete(all, id)
	return saveJSON(k.options.Dir, rolledBackFile, all)
}

// AddStatus adds the state of the host's devices to a network's status.
func (k *Devices) AddStatus(n fleet.Network, st *fleet.NetworkStatus) {
	if n.Spec == nil || n.Spec.Mode.Info().HostAddresses || n.Spec.Mode == "" {
		return
	}
	if u, ok := k.readRolledBackChange(n.ID); ok {
		at := u.At
		st.RolledBack, st.Error = &at, u.Words
	}
	p, err := k.kernel.read(n, false)
	if err != nil {
		addFirstFault(st, err.Error())
		return
	}
	if !n.Spec.Mode.Info().CreatesDevices && st.Active {
		st.NICs = k.nicCapacity(n, p)
		if err := checkDevicesPresent(n, p, st.NICs); err != nil {
			addFirstFault(st, err.Error())
		}
	}
	addDeviceStatus(n, p, st)
}

// nicCapacity returns the network's NIC capacity on this host; nil: unlimited.
func (k *Devices) nicCapacity(n fleet.Network, p hostState) *fleet.NetworkNICs {
	switch {
	case !n.Spec.HasExclusiveNICs():
		return nil
	case n.Spec.Mode == fleet.NetworkSRIOV:
		c := k.kernel.virtualFunctions(n.Spec.Device)
		return &c
	}
	c := fleet.NetworkNICs{Used: p.guestTaps}
	if p.uplink != nil {
		c.Total = 1
	}
	return &c
}

// addDeviceStatus adds the state of the network's devices to the status.
func addDeviceStatus(n fleet.Network, p hostState, st *fleet.NetworkStatus) {
	if !n.Spec.Mode.Info().CreatesDevices {
		st.Uplink = n.Spec.Device
		if p.bridge != nil {
			st.MTU = p.bridge.MTU
		} else if p.uplink != nil {
			st.MTU = p.uplink.MTU
		}
		return
	}
	if p.bridge == nil || p.bridge.Owner != ownerAlias(n) {
		if st.Active {
			addFirstFault(st, fmt.Sprintf("The bridge %s was removed on the host. Try again to recreate it.", n.BridgeDevice()))
		}
		return
	}
	st.Bridge, st.MTU, st.Uplink = n.BridgeDevice(), p.bridge.MTU, n.Spec.Device
	port := p.uplink
	switch {
	case n.Spec.Mode == fleet.NetworkVXLAN:
		port = p.tunnel
		if port != nil {
			st.VTEP, st.Peers = port.Local, len(port.Peers)
			for _, l := range p.localAddresses {
				if l.addr.String() == port.Local {
					st.Uplink = l.on
				}
			}
		}
	case n.Spec.VLAN > 0:
		port = p.vlan
	}
	switch {
	case p.bridge.STP != n.Spec.STP && n.Spec.Mode == fleet.NetworkUplink:
		addFirstFault(st, fmt.Sprintf("The spanning tree of the bridge %s was switched %s on the host. Try again to switch it %s.", p.bridge.Name, onOffText(p.bridge.STP), onOffText(n.Spec.STP)))
	case !p.bridge.Up:
		addFirstFault(st, fmt.Sprintf("The bridge %s was taken down on the host. Try again to bring it up.", p.bridge.Name))
	case port == nil || port.Master != p.bridge.Name:
		addFirstFault(st, fmt.Sprintf("The uplink of the bridge %s was removed on the host. Try again to recreate it.", p.bridge.Name))
	case port == p.uplink && len(port.Addresses) > 0:
		addFirstFault(st, fmt.Sprintf("The device %s has an address of its own on the host, %s, which does not work in a bridge. Try again to move the address to the bridge %s.", port.Name, port.Addresses[0].CIDR, p.bridge.Name))
	case unmanagedPort(n, p) != "":
		addFirstFault(st, fmt.Sprintf("Somebody put %s into the bridge %s on the host: two uplinks may form a loop. Remove the device from the bridge there.", unmanagedPort(n, p), p.bridge.Name))
	}
}

func onOffText(on bool) string {
	if on {
		return "on"
	}
	return "off"
}

// addFirstFault records a fault in the status unless it has one already.
func addFirstFault(st *fleet.NetworkStatus, words string) {
	if st.Error == "" {
		st.Error = words
	}
}

// MarkPortalNICs sets for each device whether the agent reaches its portal through the device.
func (k *Devices) MarkPortalNICs(nics []fleet.HostNIC) {
	carriers := k.kernel.routeDevices(k.options.Portal)
	for i := range nics {
		nics[i].Agent = slices.Contains(carriers, nics[i].Name)
	}
}
