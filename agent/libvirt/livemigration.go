package libvirt

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"time"

	golibvirt "github.com/digitalocean/go-libvirt"

	"quantix/agent/hypervisor"
	"quantix/agent/libvirt/conn"
	"quantix/agent/libvirt/hostfile"
	"quantix/agent/libvirt/storage"
	"quantix/agent/migration"
	"quantix/internal/fleet"
)

// The two agents drive libvirt's migration protocol, version 3: the source begins, performs and confirms, and the target
// prepares and finishes. libvirt's own peer-to-peer mode would need a connection from one libvirtd to the other.
//
// The target's answer to the finish decides the VM's host. Until then both guests are paused, and the source keeps its
// guest until the target's job has ended.

// migrationFlags are the flags of all phases. migrationSourceFlags are those of the source's phases: they protect the
// VM from changes between the phases. libvirt considers only some file systems as shared, so its own check is off: the
// target compares each disk's file with the source's.
const (
	migrationFlags       = golibvirt.MigrateLive | golibvirt.MigratePersistDest | golibvirt.MigrateUndefineSource | golibvirt.MigrateUnsafe
	migrationSourceFlags = migrationFlags | golibvirt.MigrateChangeProtection
)

// Time limits of the phases that transfer no memory.
const (
	migrationPhaseTimeout = time.Minute
	migrationPollInterval = 500 * time.Millisecond
)

// Messages of the agents. They are sent in this order: offer, answer, end, result.
type (
	migrationOffer struct {
		XML    string            `json:"xml"`    // the running guest's definition
		Cookie []byte            `json:"cookie"` // of libvirt's Begin
		Inodes map[string]string `json:"inodes"` // inode number of each disk's file, by path
	}
	migrationAnswer struct {
		Cookie []byte `json:"cookie"` // of Prepare
		Error  string `json:"error"`
	}
	migrationEnd struct {
		Cancelled bool   `json:"cancelled"` // the source has kept the guest
		Stopped   bool   `json:"stopped"`   // because a user cancelled the job
		Cookie    []byte `json:"cookie"`    // of Perform
	}
	migrationResult struct {
		Cookie []byte `json:"cookie"` // of Finish
		Error  string `json:"error"`  // why the VM does not run on the target; empty: it runs there
	}
)

// streamMigration is the kind of QEMU's migration stream.
const streamMigration byte = 'm'

// migrationDir is the directory of the migration sockets. QEMU's user must be able to create a socket in the directory
// of each migration.
var migrationDir = "/run/quantix/migration"

// liveMigration is the state of one MigrateRunningVM call.
type liveMigration struct {
	*Backend
	c   *conn.Conn // of its own, because libvirt binds the migration to the connection
	in  hypervisor.LiveMigrationWork
	ref golibvirt.Domain
	end migrationResult
}

// MigrateRunningVM implements hypervisor.VMs.
func (b *Backend) MigrateRunningVM(ctx context.Context, in hypervisor.LiveMigrationWork) error {
	act := "migrate " + in.VM.Name
	unlock, err := b.vmLocks.Lock(ctx, in.VM.ID)
	if err != nil {
		return conn.WrapAction(act, err)
	}
	defer unlock()
	files, err := b.lockFilesShared(ctx, hypervisor.ApplyWork{VM: in.VM, Pools: in.Pools})
	if err != nil {
		return conn.WrapAction(act, err)
	}
	defer files.Unlock()
	// ctx ends when a user cancels. The phases that follow a cancellation still need the connection.
	return conn.WrapAction(act, b.daemon.WithConn(context.WithoutCancel(ctx), func(_ context.Context, c *conn.Conn) error {
		m := &liveMigration{Backend: b, c: c, in: in}
		err := m.run(ctx)
		if errors.Is(err, context.Canceled) {
			return causeOr(ctx, err)
		}
		return err
	}))
}

func (m *liveMigration) run(ctx context.Context) error {
	if m.in.Begun {
		return m.settle(ctx, hypervisor.InterruptedMigrationError(m.in.VM.Name))
	}
	s, err := m.read(ctx)
	if err != nil {
		return err
	}
	if err := m.checkMigratable(s); err != nil {
		return err
	}
	m.ref = s.ref
	m.in.Progress(0, "waiting for "+m.in.Params.ToName)
	link, err := m.in.Connect(ctx)
	if err != nil {
		return err
	}
	defer link.Close()
	if err := m.in.RecordBegin(); err != nil { // from now on, the end of this call ends the target's job
		return err
	}
	arrived, err := m.migrate(ctx, link)
	if arrived {
		return m.cleanUpSource(ctx)
	}
	return err
}

// read returns the domain's current state.
func (m *liveMigration) read(ctx context.Context) (observedDomain, error) {
	uuid, err := conn.ParseUUID(m.in.VM.ID)
	if err != nil {
		return observedDomain{}, err
	}
	m.domains.invalidate(uuid)
	return m.readObservedDomain(ctx, m.c, m.in.VM.ID)
}

// checkMigratable refuses a VM that cannot leave its host while it runs.
func (m *liveMigration) checkMigratable(s observedDomain) error {
	for _, d := range m.in.VM.Spec.Disks {
		if !slices.Contains(m.in.Params.Stay, d.Ref()) {
			return hypervisor.RefuseMigration(m.in.VM.Name, "the disk %s is not in a pool that both hosts share.", d.Volume)
		}
	}
	switch {
	case !s.managed:
		return errUnmanagedDomain()
	case s.live == nil || s.state != int32(golibvirt.DomainRunning):
		return hypervisor.RefuseMigration(m.in.VM.Name, "the VM is not running.")
	case s.transient:
		return hypervisor.FaultError(hypervisor.UndefinedDomainFault())
	case len(m.in.VM.Spec.HostDevices) > 0:
		return hypervisor.RefuseMigration(m.in.VM.Name, "the VM has devices of this host. Detach the devices first.")
	}
	return m.refuseLostGuest(s)
}

// migrate runs the phases. It returns arrived when the VM runs on the target and this host no longer has the VM.
func (m *liveMigration) migrate(ctx context.Context, link *migration.Link) (arrived bool, err error) {
	socket, stop, err := m.forwardStream(link)
	if err != nil {
		return false, err
	}
	defer stop()
	params := migrationParams(m.ref.Name, socket, m.bandwidth()...)
	var xml string
	var cookie []byte
	err = m.phase(ctx, func(l *golibvirt.Libvirt) (err error) {
		cookie, xml, err = l.DomainMigrateBegin3Params(m.ref, params, uint32(migrationSourceFlags))
		return err
	})
	if err != nil {
		return false, err
	}
	offer := migrationOffer{XML: xml, Cookie: cookie}
	if offer.Inodes, err = diskInodes(m.in.VM.Spec, m.in.Pools); err == nil {
		cookie, err = m.prepareTarget(ctx, link, offer)
	}
	if err != nil {
		return false, errors.Join(err, m.confirmCancelled())
	}
	performed := m.perform(ctx, params, &cookie)
	if performed != nil {
		cookie = nil
	}
	err = m.finishOnTarget(ctx, link, migrationEnd{Cancelled: performed != nil, Stopped: ctx.Err() != nil, Cookie: cookie})
	switch {
	case performed != nil && conn.IsLibvirtError(performed):
		// A failed Perform has resumed the guest. The target only ends its incoming guest.
		return false, errors.Join(causeOr(ctx, performed), m.confirmCancelled())
	case performed != nil || err != nil: // the connection to libvirt or to the target was lost
		return m.decide(ctx, errors.Join(performed, err))
	case m.end.Error != "":
		// The guest is paused. decide resumes it once the target's job has ended.
		return m.decide(ctx, fmt.Errorf("%s reports: %s", m.in.Params.ToName, m.end.Error))
	}
	if err := m.confirm(true); err != nil {
		return m.decide(ctx, err)
	}
	return true, nil
}

// bandwidth returns the parameter of the job's rate limit, in MiB/s.
func (m *liveMigration) bandwidth() []golibvirt.TypedParam {
	if m.in.Params.RateBytes <= 0 {
		return nil
	}
	mib := max(1, uint64(m.in.Params.RateBytes)>>20)
	return []golibvirt.TypedParam{{Field: golibvirt.MigrateParamBandwidth, Value: *golibvirt.NewTypedParamValueUllong(mib)}}
}

// causeOr returns the reason for the cancellation if ctx has ended, else err.
func causeOr(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return err
}

// phase runs one phase, within migrationPhaseTimeout.
func (m *liveMigration) phase(ctx context.Context, do func(*golibvirt.Libvirt) error) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), migrationPhaseTimeout)
	defer cancel()
	return m.c.Do(ctx, do)
}

func (m *liveMigration) confirm(arrived bool) error {
	cancelled := int32(1)
	if arrived {
		cancelled = 0
	}
	return m.phase(context.Background(), func(l *golibvirt.Libvirt) error {
		return l.DomainMigrateConfirm3Params(m.ref, migrationParams(m.ref.Name, ""), m.end.Cookie, uint32(migrationSourceFlags), cancelled)
	})
}

// confirmCancelled ends a cancelled migration. libvirt has ended some of them already, and then refuses.
func (m *liveMigration) confirmCancelled() error {
	if err := m.confirm(false); !conn.IsLibvirtError(err) {
		return err
	}
	return nil
}

// prepareTarget sends the offer and returns the target's cookie.
func (m *liveMigration) prepareTarget(ctx context.Context, link *migration.Link, offer migrationOffer) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, 2*migrationPhaseTimeout)
	defer cancel()
	var answer migrationAnswer
	if err := link.Send(ctx, offer); err != nil {
		return nil, err
	}
	if err := link.Receive(ctx, &answer); err != nil {
		return nil, err
	}
	switch {
	case answer.Error != "":
		return nil, fleet.Errorf(fleet.Conflict, "%s cannot receive the VM: %s", m.in.Params.ToName, answer.Error)
	case len(answer.Cookie) == 0:
		return nil, errors.New("the target host sent no cookie of libvirt")
	}
	return answer.Cookie, nil
}

// diskInodes returns the inode numbers of the files of the disks, by path. A volume in a block pool has none.
func diskInodes(spec fleet.VMSpec, pools []fleet.Pool) (map[string]string, error) {
	out := map[string]string{}
	for _, d := range spec.Disks {
		v, err := storage.LocalVolumeOf(d.Ref(), pools)
		if err != nil {
			return nil, err
		}
		if v.IsInBlockPool() {
			continue
		}
		inode, err := hostfile.RunWithinLookupTimeout(context.Background(), func() (string, error) { return inodeOf(v.Path()) })
		if err != nil {
			return nil, err
		}
		out[v.Path()] = inode
	}
	return out, nil
}

// finishOnTarget sends the end of the transfer and stores the target's result.
func (m *liveMigration) finishOnTarget(ctx context.Context, link *migration.Link, end migrationEnd) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 2*migrationPhaseTimeout)
	defer cancel()
	if err := link.Send(ctx, end); err != nil {
		return err
	}
	return link.Receive(ctx, &m.end)
}

// perform transfers the guest. If ctx ends, perform cancels the transfer, which leaves the guest running here.
func (m *liveMigration) perform(ctx context.Context, params []golibvirt.TypedParam, cookie *[]byte) error {
	watch, stop := context.WithCancel(context.WithoutCancel(ctx))
	defer stop()
	go m.watchTransfer(watch, ctx)
	return m.c.Do(context.WithoutCancel(ctx), func(l *golibvirt.Libvirt) error {
		out, err := l.DomainMigratePerform3Params(m.ref, nil, params, *cookie, migrationSourceFlags)
		*cookie = out
		return err
	})
}

// watchTransfer reports the progress of the transfer until done ends. It aborts the transfer when ctx ends.
func (m *liveMigration) watchTransfer(done, ctx context.Context) { //nolint:revive // two contexts with a meaning each
	tick := time.NewTicker(migrationPollInterval)
	defer tick.Stop()
	for {
		select {
		case <-done.Done():
			return
		case <-tick.C:
		}
		_ = m.daemon.WithConn(done, func(call context.Context, c *conn.Conn) error {
			if ctx.Err() != nil {
				return c.Do(call, func(l *golibvirt.Libvirt) error { return l.DomainAbortJob(m.ref) })
			}
			_, params, err := jobStats(call, c, m.ref)
			if err == nil {
				m.in.Progress(transferProgress(params))
			}
			return err
		})
	}
}

func jobStats(ctx context.Context, c *conn.Conn, ref golibvirt.Domain) (kind int32, stats map[string]int64, err error) {
	type result struct {
		kind  int32
		stats []golibvirt.TypedParam
	}
	out, err := conn.Call(ctx, c, func(l *golibvirt.Libvirt) (out result, err error) {
		out.kind, out.stats, err = l.DomainGetJobStats(ref, 0)
		return out, err
	})
	return out.kind, numericParams(out.stats), err
}

// transferProgress returns the progress that libvirt's job statistics mean.
func transferProgress(stats map[string]int64) (percent int, note string) {
	total, left := stats[golibvirt.DomainJobMemoryTotal], stats[golibvirt.DomainJobMemoryRemaining]
	if total > 0 {
		percent = int(100 * (total - left) / total)
	}
	note = fmt.Sprintf("memory: %s left of %s", fleet.FormatBytes(left), fleet.FormatBytes(total))
	if rate := stats[golibvirt.DomainJobMemoryBps]; rate > 0 {
		note += fmt.Sprintf(", %s/s", fleet.FormatBytes(rate))
	}
	if dirty := stats[golibvirt.DomainJobMemoryDirtyRate] * stats[golibvirt.DomainJobMemoryPageSize]; dirty > 0 {
		note += fmt.Sprintf(", the guest changes %s/s", fleet.FormatBytes(dirty))
	}
	return min(percent, 99), note
}

// decide waits for the end of the target's job, and then ends the migration accordingly. why is the error for a VM that
// stays.
func (m *liveMigration) decide(ctx context.Context, why error) (arrived bool, err error) {
	ctx = context.WithoutCancel(ctx)
	m.in.Progress(99, "waiting for the result of "+m.in.Params.ToName)
	if arrived, err = m.in.AwaitTarget(ctx); err != nil {
		return false, errors.Join(why, err)
	}
	if m.confirm(arrived) == nil {
		if arrived {
			return true, nil
		}
		return false, why
	}
	return arrived, m.settleState(ctx, arrived, why)
}

// settle ends a migration that an earlier attempt of the job began. It returns why if the VM stays.
func (m *liveMigration) settle(ctx context.Context, why error) error {
	ctx = context.WithoutCancel(ctx)
	if err := m.endTransfer(ctx); err != nil {
		return err
	}
	if err := removeMigrationDir(m.in.VM.ID, migrationSource); err != nil {
		return err
	}
	m.in.Progress(99, "waiting for the result of "+m.in.Params.ToName)
	arrived, err := m.in.AwaitTarget(ctx)
	if err != nil {
		return err
	}
	if err := m.settleState(ctx, arrived, why); err != nil {
		return err
	}
	return m.cleanUpSource(ctx)
}

// endTransfer cancels a transfer that libvirt still performs, and waits for its end.
func (m *liveMigration) endTransfer(ctx context.Context) error {
	for {
		s, err := m.read(ctx)
		if conn.IsLibvirtCode(err, golibvirt.ErrNoDomain) {
			return nil
		}
		if err != nil {
			return err
		}
		m.ref = s.ref
		kind, _, err := jobStats(ctx, m.c, s.ref)
		if err != nil && !conn.IsLibvirtError(err) {
			return err
		}
		if transfers := err == nil && kind != int32(golibvirt.DomainJobNone) && s.state != int32(golibvirt.DomainPaused); !transfers {
			return nil
		}
		err = m.c.Do(ctx, func(l *golibvirt.Libvirt) error { return l.DomainAbortJob(s.ref) })
		if err != nil && !conn.IsLibvirtError(err) {
			return err
		}
		time.Sleep(migrationPollInterval)
	}
}

// settleState removes this host's domain if the VM has arrived on the target. Otherwise it resumes the guest and returns
// why.
func (m *liveMigration) settleState(ctx context.Context, arrived bool, why error) error {
	s, err := m.read(ctx)
	gone := conn.IsLibvirtCode(err, golibvirt.ErrNoDomain)
	switch {
	case err != nil && !gone:
		return err
	case arrived && gone:
		return nil
	case arrived:
		return m.removeArrivedDomain(ctx, s)
	case gone:
		return errNoDomain(m.in.VM.ID)
	case s.state == int32(golibvirt.DomainPaused) && s.reason == int32(golibvirt.DomainPausedMigration):
		if err := m.phase(ctx, func(l *golibvirt.Libvirt) error { return l.DomainResume(s.ref) }); err != nil {
			return errors.Join(why, err)
		}
	}
	return why
}

// removeArrivedDomain removes the paused guest and the definition of a VM that runs on the target.
func (m *liveMigration) removeArrivedDomain(ctx context.Context, s observedDomain) error {
	if s.live != nil && (s.state != int32(golibvirt.DomainPaused) || s.reason != int32(golibvirt.DomainPausedMigration)) {
		return fleet.Errorf(fleet.Conflict, "The VM %s runs on %s, but its guest also runs on this host. Find out which guest has the newer data, and force the other off.", m.in.VM.Name, m.in.Params.ToName)
	}
	defer m.domains.invalidate(s.ref.UUID)
	if s.live != nil {
		if err := m.phase(ctx, func(l *golibvirt.Libvirt) error { return l.DomainDestroyFlags(s.ref, 0) }); err != nil && !conn.IsLibvirtError(err) {
			return err
		}
	}
	if s.transient {
		return nil
	}
	return m.phase(ctx, func(l *golibvirt.Libvirt) error {
		return l.DomainUndefineFlags(s.ref, golibvirt.DomainUndefineNvram)
	})
}

// cleanUpSource removes what this host still has of a VM that has left.
func (m *liveMigration) cleanUpSource(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), migrationPhaseTimeout)
	defer cancel()
	m.domains.invalidate(m.ref.UUID)
	return errors.Join(m.removeOtherSeeds(ctx, m.in.VM.ID), m.filters.RemoveNICFilters(ctx, m.c, m.in.VM.ID, nil))
}

// forwardStream opens the socket to which libvirt sends the guest, and forwards its connections to the target.
func (m *liveMigration) forwardStream(link *migration.Link) (socket string, stop func(), err error) {
	dir, err := makeMigrationDir(m.in.VM.ID, migrationSource, 0)
	if err != nil {
		return "", nil, err
	}
	socket = filepath.Join(dir, "migrate.sock")
	listener, err := net.Listen("unix", socket) //nolint:noctx // it takes no time
	if err != nil {
		return "", nil, errors.Join(err, os.RemoveAll(dir))
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		link.ForwardFrom(listener, streamMigration)
	}()
	return socket, func() {
		listener.Close()
		link.Close()
		<-done
		_ = os.RemoveAll(dir)
	}, nil
}

// The two sides of a migration, in the names of their directories.
const (
	migrationSource = "source"
	migrationTarget = "target"
)

func migrationDirOf(id fleet.VMID, side string) string {
	return filepath.Join(migrationDir, side+"-"+string(id))
}

// removeMigrationDir removes the directory that an interrupted migration has left.
func removeMigrationDir(id fleet.VMID, side string) error {
	_, err := hostfile.RunWithinLookupTimeout(context.Background(), func() (struct{}, error) {
		return struct{}{}, os.RemoveAll(migrationDirOf(id, side))
	})
	return err
}

// makeMigrationDir makes an empty directory for the sockets of the VM's migration. uid is its owner.
func makeMigrationDir(id fleet.VMID, side string, uid int) (string, error) {
	return hostfile.RunWithinLookupTimeout(context.Background(), func() (string, error) {
		dir := migrationDirOf(id, side)
		err := os.MkdirAll(migrationDir, 0o711)
		if err == nil {
			err = os.RemoveAll(dir)
		}
		if err == nil {
			err = os.Mkdir(dir, 0o700)
		}
		if err == nil {
			err = os.Chown(dir, uid, -1)
		}
		return dir, err
	})
}

// migrationParams returns the parameters of a phase. socket is the path of the migration stream's socket on the phase's
// host; empty: the phase needs none.
func migrationParams(domain, socket string, more ...golibvirt.TypedParam) []golibvirt.TypedParam {
	out := []golibvirt.TypedParam{textParam(golibvirt.MigrateParamDestName, domain)}
	if socket != "" {
		out = append(out, textParam(golibvirt.MigrateParamURI, "unix://"+socket))
	}
	return append(out, more...)
}

func textParam(field, value string) golibvirt.TypedParam {
	return golibvirt.TypedParam{Field: field, Value: *golibvirt.NewTypedParamValueString(value)}
}

// qemuUser returns the user ID that libvirt runs QEMU with, from the base label of its capabilities.
func qemuUser(label string) (int, error) {
	var uid, gid int
	if _, err := fmt.Sscanf(label, "+%d:+%d", &uid, &gid); err != nil {
		return 0, fmt.Errorf("libvirt's capabilities have the DAC label %s: %w", strconv.Quote(label), err)
	}
	return uid, nil
}
