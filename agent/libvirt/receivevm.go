package libvirt

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"time"

	golibvirt "github.com/digitalocean/go-libvirt"
	"libvirt.org/go/libvirtxml"

	"quantix/agent/hypervisor"
	"quantix/agent/libvirt/conn"
	"quantix/agent/libvirt/domxml"
	"quantix/internal/fleet"
)

// incomingVM is the state of one ReceiveVM call.
type incomingVM struct {
	*applyRun
	in     hypervisor.ReceiveVMWork
	socket string
}

// ReceiveVM implements hypervisor.VMs. libvirt ends the incoming guest if the connection c is lost before Finish.
func (b *Backend) ReceiveVM(ctx context.Context, in hypervisor.ReceiveVMWork) error {
	act := "receive " + in.Apply.VM.Name
	unlock, err := b.vmLocks.Lock(ctx, in.Apply.VM.ID)
	if err != nil {
		return conn.WrapAction(act, err)
	}
	defer unlock()
	files, err := b.lockFilesShared(ctx, in.Apply)
	if err != nil {
		return conn.WrapAction(act, err)
	}
	defer files.Unlock()
	b.assignedPools.Record(in.Apply.Pools)
	return conn.WrapAction(act, b.daemon.WithConn(context.WithoutCancel(ctx), func(_ context.Context, c *conn.Conn) error {
		m := &incomingVM{applyRun: &applyRun{Backend: b, c: c, in: in.Apply}, in: in}
		return m.run(ctx)
	}))
}

func (m *incomingVM) run(ctx context.Context) error {
	if m.in.Begun {
		return m.settle(ctx)
	}
	old, err := m.existingDomain(ctx)
	switch {
	case err != nil:
		return err
	case old != nil:
		return hypervisor.RefuseKnownVM(m.in.Apply.VM.Name)
	}
	if err := m.in.RecordBegin(); err != nil {
		return err
	}
	err = m.receive(ctx)
	if err != nil {
		err = errors.Join(err, m.cleanUpTarget(ctx))
	}
	return err
}

// settle ends an interrupted call.
func (m *incomingVM) settle(ctx context.Context) error {
	switch arrived, err := m.hasArrived(ctx); {
	case err != nil:
		return err
	case arrived:
		return removeMigrationDir(m.in.Apply.VM.ID, migrationTarget)
	}
	return errors.Join(hypervisor.InterruptedMigrationError(m.in.Apply.VM.Name), m.cleanUpTarget(ctx))
}

// hasArrived reports whether the guest runs here, or was paused by a user. It waits while libvirt still starts or ends the
// incoming guest.
func (m *incomingVM) hasArrived(ctx context.Context) (bool, error) {
	for {
		s, err := m.existingDomain(ctx)
		switch {
		case err != nil || s == nil:
			return false, err
		case s.live == nil:
			return false, hypervisor.RefuseKnownVM(m.in.Apply.VM.Name)
		case s.state != int32(golibvirt.DomainPaused):
			return true, nil
		case s.reason != int32(golibvirt.DomainPausedMigration) && s.reason != int32(golibvirt.DomainPausedStartingUp):
			return true, nil
		}
		select {
		case <-ctx.Done():
			return false, context.Cause(ctx)
		case <-time.After(migrationPollInterval):
		}
	}
}

// receive prepares this host, receives the guest and starts it.
func (m *incomingVM) receive(ctx context.Context) error {
	if err := m.prepareHost(ctx); err != nil {
		return err
	}
	m.in.Progress(0, "waiting for the source host")
	link, err := m.in.Accept(ctx)
	if err != nil {
		return err
	}
	defer link.Close()
	dir, err := m.makeDir(ctx)
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	m.socket = filepath.Join(dir, "migrate.sock")
	var offer migrationOffer
	if err := link.Receive(ctx, &offer); err != nil {
		return err
	}
	cookie, err := m.prepare(ctx, offer)
	if err != nil {
		_ = link.Send(ctx, migrationAnswer{Error: err.Error()}) // without it, the source host gets the error of this job
		return err
	}
	go link.ForwardTo(m.dial)
	if err := link.Send(ctx, migrationAnswer{Cookie: cookie}); err != nil {
		return errors.Join(err, m.finish(ctx, migrationEnd{Cancelled: true}, nil))
	}
	m.in.Progress(0, "receiving the guest")
	end := migrationEnd{}
	// The transfer has no time limit. A lost link and a cancelled job end it.
	if err := link.Receive(ctx, &end); err != nil {
		return errors.Join(err, m.finish(ctx, migrationEnd{Cancelled: true}, nil))
	}
	var result migrationResult
	err = m.finish(ctx, end, &result.Cookie)
	if err != nil && !end.Cancelled {
		if err = m.settleFailedFinish(ctx, err); errors.Is(err, hypervisor.ErrUnreachable) {
			return err // the source host waits for the end of this job, because the guest may run here
		}
	}
	switch {
	case err != nil:
	case end.Stopped:
		err = hypervisor.ErrCancelled
	case end.Cancelled:
		err = hypervisor.InterruptedMigrationError(m.in.Apply.VM.Name)
	}
	if err != nil {
		result.Error = err.Error()
	}
	within, cancel := context.WithTimeout(context.WithoutCancel(ctx), migrationPhaseTimeout)
	defer cancel()
	_ = link.Send(within, result) // without it, the source host waits for the end of this job
	return err
}

// settleFailedFinish returns nil if the guest runs here although Finish failed, and why if this host has no guest. It uses a
// connection of its own, because a call that timed out has closed the other one. An error that wraps ErrUnreachable means
// that the guest may run.
func (m *incomingVM) settleFailedFinish(ctx context.Context, why error) error {
	ctx = context.WithoutCancel(ctx)
	return m.daemon.WithConn(ctx, func(ctx context.Context, c *conn.Conn) error {
		run := *m.applyRun
		run.c = c
		again := incomingVM{applyRun: &run, in: m.in}
		arrived, err := again.hasArrived(ctx)
		switch {
		case err != nil:
			return hypervisor.WrapUnreachable(errors.Join(why, err))
		case arrived:
			return nil
		}
		return why
	})
}

// prepareHost creates the VM's network filters and first-boot data, and checks the VM's disks, as ApplyVM would.
func (m *incomingVM) prepareHost(ctx context.Context) error {
	plan := hypervisor.PlanEdit(hypervisor.AppliedRecord{}, hypervisor.DefinedSpec{}, m.in.Apply.VM, hypervisor.OverwriteAll)
	content, err := m.prepareEdit(ctx, nil, nil, plan)
	if err != nil {
		return err
	}
	if err := m.createSeed(ctx, fleet.VMFirstBoot{}, &content); err != nil {
		return err
	}
	return m.filters.DefineNICFilters(ctx, m.c, m.in.Apply)
}

func (m *incomingVM) makeDir(ctx context.Context) (string, error) {
	text, err := conn.Call(ctx, m.c, func(l *golibvirt.Libvirt) (string, error) { return l.ConnectGetCapabilities() })
	if err != nil {
		return "", err
	}
	var caps libvirtxml.Caps
	if err := caps.Unmarshal(text); err != nil {
		return "", err
	}
	uid := 0
	for _, model := range caps.Host.SecModel {
		for _, label := range model.Labels {
			if model.Name == "dac" && (label.Type == "kvm" || label.Type == "qemu") {
				if uid, err = qemuUser(label.Value); err != nil {
					return "", err
				}
			}
		}
	}
	return makeMigrationDir(m.in.Apply.VM.ID, migrationTarget, uid)
}

func (m *incomingVM) dial(kind byte) (net.Conn, error) {
	if kind != streamMigration {
		return nil, fmt.Errorf("the source host opens a stream of the unknown kind %q", kind)
	}
	return net.Dial("unix", m.socket) //nolint:noctx // it takes no time
}

// prepare checks the offered definition and starts the incoming guest.
func (m *incomingVM) prepare(ctx context.Context, offer migrationOffer) (cookie []byte, err error) {
	if len(offer.Cookie) == 0 { // libvirtd 9.0 crashes at an empty cookie
		return nil, errors.New("the source host sent no cookie of libvirt")
	}
	name, err := domxml.CheckIncoming(offer.XML, m.in.Apply.VM, m.incomingDirs())
	if err != nil {
		return nil, err
	}
	if taken, err := m.isNameTaken(ctx, name); err != nil || taken {
		return nil, errors.Join(err, fleet.Errorf(fleet.Conflict, "Another domain on this host has the name %s.", name))
	}
	if err := m.checkSameFiles(offer.Inodes); err != nil {
		return nil, err
	}
	params := migrationParams(name, m.socket, textParam(golibvirt.MigrateParamDestXML, offer.XML))
	ctx, cancel := context.WithTimeout(ctx, migrationPhaseTimeout)
	defer cancel()
	return conn.Call(ctx, m.c, func(l *golibvirt.Libvirt) ([]byte, error) {
		cookie, _, err := l.DomainMigratePrepare3Params(params, offer.Cookie, uint32(migrationFlags))
		return cookie, err
	})
}

// checkSameFiles refuses disks whose file on this host is not that of the source host, because their pool is not shared.
func (m *incomingVM) checkSameFiles(inodes map[string]string) error {
	own, err := diskInodes(m.in.Apply.VM.Spec, m.in.Apply.Pools)
	if err != nil {
		return err
	}
	for file, inode := range own {
		if inodes[file] != inode {
			return fleet.Errorf(fleet.Conflict, "The file %s on this host is not that of the source host, so its pool is not shared. Mount the same storage on both hosts.", file)
		}
	}
	return nil
}

// incomingDirs returns the directories of the VM's disks, media and first-boot data on this host.
func (m *incomingVM) incomingDirs() (dirs []string) {
	for _, p := range m.in.Apply.Pools {
		if p.Spec.Path != "" {
			dirs = append(dirs, p.Spec.Path)
		}
	}
	if seed, err := m.seeds.PathOf(m.in.Apply.VM.ID, m.in.Apply.VM.Spec.FirstBoot); err == nil {
		dirs = append(dirs, filepath.Dir(seed))
	}
	return dirs
}

// finish starts the received guest, or ends it if the source host has cancelled the transfer.
func (m *incomingVM) finish(ctx context.Context, end migrationEnd, cookie *[]byte) error {
	cancelled := int32(0)
	if end.Cancelled {
		cancelled = 1
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), migrationPhaseTimeout)
	defer cancel()
	uuid, err := conn.ParseUUID(m.in.Apply.VM.ID)
	if err != nil {
		return err
	}
	defer m.domains.invalidate(uuid)
	ref, err := conn.Call(ctx, m.c, func(l *golibvirt.Libvirt) (golibvirt.Domain, error) { return l.DomainLookupByUUID(uuid) })
	if conn.IsLibvirtCode(err, golibvirt.ErrNoDomain) && end.Cancelled {
		return nil
	}
	if err != nil {
		return err
	}
	err = m.c.Do(ctx, func(l *golibvirt.Libvirt) error {
		_, out, err := l.DomainMigrateFinish3Params(migrationParams(ref.Name, ""), end.Cookie, uint32(migrationFlags), cancelled)
		if cookie != nil {
			*cookie = out
		}
		return err
	})
	if end.Cancelled && conn.IsLibvirtError(err) {
		return nil // libvirt answers a cancelled Finish with an error, because there is no guest to return
	}
	return err
}

// cleanUpTarget removes what the failed migration left on this host.
func (m *incomingVM) cleanUpTarget(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), migrationPhaseTimeout)
	defer cancel()
	if old, err := m.existingDomain(ctx); err != nil || old != nil {
		return err
	}
	if err := removeMigrationDir(m.in.Apply.VM.ID, migrationTarget); err != nil {
		return err
	}
	return errors.Join(m.removeOtherSeeds(ctx, m.in.Apply.VM.ID), m.filters.RemoveNICFilters(ctx, m.c, m.in.Apply.VM.ID, nil))
}
