package libvirt

import (
	"context"
	"encoding/json"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"time"

	golibvirt "github.com/digitalocean/go-libvirt"
	"libvirt.org/go/libvirtxml"

	"quantix/agent/hypervisor"
	"quantix/agent/libvirt/conn"
	"quantix/agent/libvirt/domxml"
	"quantix/agent/libvirt/hostfile"
	"quantix/internal/fleet"
)

// A pivot moves a running guest from the merged top file to the base. If libvirt is killed during the pivot, libvirt
// does not know the outcome. The live definition may then list the old file and a block job that QEMU does not have, or
// libvirt may lose the guest, while the guest writes to the base. A start from the old file would lose these writes. So
// the agent first records the pivot in the tree, and later queries QEMU for the outcome.

// recordPivot records in the tree that the guest is about to pivot.
func (w *snapshotJob) recordPivot() error {
	if w.tree.Work.Step == hypervisor.SnapStepPivoting {
		return nil
	}
	w.tree.Work.Step = hypervisor.SnapStepPivoting
	return w.save()
}

// hasPivoted reports whether the guest has left the top file of a merge that libvirt no longer lists as a job.
func (w *snapshotJob) hasPivoted(ctx context.Context, m hypervisor.SnapMerge, active bool) (bool, error) {
	for began := time.Now(); ; {
		s, err := w.readState(ctx)
		if err != nil {
			return false, err
		}
		live, err := w.runningDefinition(ctx, s)
		if err != nil {
			return false, err
		}
		d := domainDiskOf(live, m.Disk)
		switch {
		case d == nil:
			return false, errGuestEndedDuringMerge()
		case active && domxml.DiskPathOf(d) == m.Base, !active && !isInBackingChain(d, m.Top):
			return true, nil
		case !active, d.Mirror == nil && w.tree.Work.Step != hypervisor.SnapStepPivoting:
			return false, nil
		case d.Mirror == nil, time.Since(began) > endedJobTimeout:
			over, err := w.guestUsesBase(ctx, s, m)
			if err == nil && !over && d.Mirror != nil {
				err = errors.Join(errCopyWithoutQEMU("the disk"), w.removeOperationRecord())
			}
			return over, err
		}
		if err := waitPollPeriod(ctx); err != nil {
			return false, err
		}
	}
}

// endedJobTimeout is how long libvirt may take to notice that QEMU ended a job.
const endedJobTimeout = 2 * time.Second

// waitPollPeriod waits for pollPeriod. It returns an error if ctx ends first.
func waitPollPeriod(ctx context.Context) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(pollPeriod):
		return nil
	}
}

// diskCopyError returns the error for a disk that libvirt reports as being copied: QEMU really copies the disk, or only
// libvirt believes so.
func (w *snapshotJob) diskCopyError(ctx context.Context, s diskMigrationState, d *libvirtxml.DomainDisk, name string) error {
	jobs, err := conn.Call(ctx, w.c, func(l *golibvirt.Libvirt) (int32, error) {
		jobs, _, _, _, _, err := l.DomainGetBlockJobInfo(s.ref, domxml.DiskTargetOf(d), 0)
		return jobs, err
	})
	switch {
	case err != nil && !conn.IsLibvirtError(err):
		return err
	case err == nil && jobs == 0:
		return errCopyWithoutQEMU(name)
	}
	return fleet.Errorf(fleet.Conflict, "The host is already copying %s (virsh blockjob). End that copy first.", name)
}

// errCopyWithoutQEMU is the error for a disk that libvirt reports as being copied while QEMU copies nothing.
func errCopyWithoutQEMU(disk string) error {
	return fleet.Errorf(fleet.Conflict, "libvirt was stopped while %s was being merged or copied. libvirt still lists that job, although QEMU has ended the job. "+
		"No data is lost. Shut the guest down, which removes the job from libvirt. Then consolidate the VM's disks.", disk)
}

// errGuestEndedDuringMerge is the error for a guest that ended during a merge.
func errGuestEndedDuringMerge() error {
	return fleet.Errorf(fleet.Conflict, "The guest ended while its disk was being merged. No data is lost. Consolidate the VM's disks to complete the merge.")
}

// guestUsesBase asks QEMU whether the guest uses the base of the merge.
func (w *snapshotJob) guestUsesBase(ctx context.Context, s diskMigrationState, m hypervisor.SnapMerge) (bool, error) {
	return w.guestUsesNewFile(ctx, w.c, s.observedDomain, m.Top, m.Base)
}

// checkSameContent checks that the base has the same content as the top, after the guest ended during a pivot. With
// equal content, the outcome of the pivot does not matter.
func (w *snapshotJob) checkSameContent(ctx context.Context, m hypervisor.SnapMerge) error {
	if err := checkFilesUnused(ctx, m.Top, m.Base); err != nil {
		return err
	}
	within, cancel := w.contextUntilCancelled(ctx)
	defer cancel()
	err := runQemuImg(within, "compare", "-q", "-f", "qcow2", "-F", "qcow2", m.Top, m.Base)
	var ended *exec.ExitError
	switch {
	case err == nil || ctx.Err() != nil:
		return err
	case w.in.IsCancelled():
		return hypervisor.ErrCancelled
	case errors.As(err, &ended) && ended.ExitCode() == 1:
		return fleet.Errorf(fleet.Conflict, "The guest ended while QEMU switched from %s to %s. The two files differ, so it is unknown which of them has the guest's last writes. "+
			"To use the first file, start the VM with virsh. To use the second file, enter it in the VM's definition (virsh edit). Then consolidate the VM's disks.", m.Top, m.Base)
	}
	return err
}

// finishMergeOfLostGuest finishes the merge of a guest that libvirt lost during a pivot. Only the running QEMU knows
// which file the guest uses.
func (w *snapshotJob) finishMergeOfLostGuest(ctx context.Context, s diskMigrationState) error {
	note := w.tree.Work
	if note == nil || note.Kind != hypervisor.SnapMergeKind || note.Step != hypervisor.SnapStepPivoting {
		return nil
	}
	over, err := w.guestUsesBase(ctx, s, *note.Merge)
	if err != nil || !over {
		return err
	}
	return w.finishMerge(ctx, *note.Merge)
}

// refuseUnknownPivot refuses to start a VM while the outcome of a pivot is unknown.
func refuseUnknownPivot(s observedDomain) error {
	if s.live != nil || s.snapshotTree == nil || s.snapshotTree.Work == nil || s.snapshotTree.Work.Step != hypervisor.SnapStepPivoting {
		return nil
	}
	top := s.snapshotTree.Work.Merge.Top
	if !slices.ContainsFunc(s.specDisks, func(d specDisk) bool { return d.path == top }) {
		return nil
	}
	return fleet.Errorf(fleet.Conflict, "The guest ended while QEMU switched the guest away from the file %s. First consolidate the VM's disks (Snapshots), which determines the current file.", filepath.Base(top))
}

// guestUsesNewFile asks the guest's QEMU whether a disk uses newFile instead of oldFile. It fails if QEMU has neither file
// open.
func (b *Backend) guestUsesNewFile(ctx context.Context, c *conn.Conn, s observedDomain, oldFile, newFile string) (bool, error) {
	files, err := b.diskFilesInQEMU(ctx, c, s)
	switch {
	case err != nil:
		return false, fmt.Errorf("read the guest's disk files from QEMU: %w", err)
	case slices.Contains(files, oldFile):
		return false, nil
	case slices.Contains(files, newFile):
		return true, nil
	}
	return false, fleet.Errorf(fleet.Conflict, "QEMU uses neither %s nor %s for the guest, so the disk's file is unknown. Check with virsh qemu-monitor-command query-block.", oldFile, newFile)
}

// diskFilesInQEMU returns the files of the guest's disks as QEMU reports them. It asks QEMU through libvirt. If libvirt
// has lost the guest, libvirt does not use QEMU's monitor socket, so diskFilesInQEMU uses the socket directly.
func (b *Backend) diskFilesInQEMU(ctx context.Context, c *conn.Conn, s observedDomain) ([]string, error) {
	ask := func(question string) (string, error) {
		return conn.Call(ctx, c, func(l *golibvirt.Libvirt) (string, error) { return l.QEMUDomainMonitorCommand(s.ref, question, 0) })
	}
	if pid, statusFile := b.findLostGuest(s); pid != 0 {
		ask = func(question string) (string, error) {
			return hostfile.RunWithinLookupTimeout(ctx, func() (string, error) { return sendQMP(ctx, statusFile, question) })
		}
	}
	reply, err := ask(`{"execute":"query-block"}`)
	if err != nil {
		return nil, err
	}
	var answer struct {
		Return []struct {
			Inserted struct {
				File string `json:"file"`
			} `json:"inserted"`
		} `json:"return"`
	}
	if err := json.Unmarshal([]byte(reply), &answer); err != nil {
		return nil, fmt.Errorf("decode QEMU's answer: %w", err)
	}
	out := make([]string, len(answer.Return))
	for i, d := range answer.Return {
		out[i] = d.Inserted.File
	}
	return out, nil
}

const (
	qmpTimeout             = 5 * time.Second
	maxAnswerBytes         = 4 << 20 // bytes of QEMU's answer
	maxStatusBytes         = 4 << 20 // bytes of libvirt's status file
	qmpCapabilitiesCommand = `{"execute":"qmp_capabilities"}`
)

// sendQMP sends a command to the QEMU monitor socket that libvirt created. QEMU serves one client at a time.
func sendQMP(ctx context.Context, statusFile, question string) (string, error) {
	f, err := os.Open(statusFile)
	if err != nil {
		return "", err
	}
	defer f.Close()
	var status struct {
		Monitor struct {
			Path string `xml:"path,attr"`
		} `xml:"monitor"`
	}
	if err := xml.NewDecoder(io.LimitReader(f, maxStatusBytes)).Decode(&status); err != nil {
		return "", fmt.Errorf("read %s: %w", statusFile, err)
	}
	ctx, cancel := context.WithTimeout(ctx, qmpTimeout)
	defer cancel()
	sock, err := new(net.Dialer).DialContext(ctx, "unix", status.Monitor.Path)
	if err != nil {
		return "", err
	}
	defer sock.Close()
	if err := sock.SetDeadline(time.Now().Add(qmpTimeout)); err != nil {
		return "", err
	}
	decoder := json.NewDecoder(io.LimitReader(sock, maxAnswerBytes))
	for _, q := range []string{"", qmpCapabilitiesCommand, question} { // QEMU sends its greeting first
		if _, err := io.WriteString(sock, q); err != nil {
			return "", err
		}
		for {
			var reply map[string]json.RawMessage
			if err := decoder.Decode(&reply); err != nil {
				return "", err
			}
			if reply["event"] != nil {
				continue
			}
			if reply["error"] != nil {
				return "", fmt.Errorf("QEMU: %s", reply["error"])
			}
			if q == question {
				text, err := json.Marshal(reply)
				return string(text), err
			}
			break
		}
	}
	return "", io.ErrUnexpectedEOF
}

// recoverMerge resumes an interrupted merge. It waits for a job that QEMU still runs and finishes a job that QEMU has
// ended. Otherwise the next merge starts from the beginning.
func (w *snapshotJob) recoverMerge(ctx context.Context, note *hypervisor.SnapOperation) error {
	m := *note.Merge
	if note.Step == hypervisor.SnapStepCommitted {
		return w.finishMerge(ctx, m)
	}
	s, err := w.readState(ctx)
	if err != nil {
		return err
	}
	live, err := w.runningDefinition(ctx, s)
	if err != nil {
		return err
	}
	active := false
	for _, a := range w.tree.Active {
		active = active || a.File == m.Top
	}
	d := domainDiskOf(live, m.Disk)
	switch {
	case d != nil && active && domxml.DiskPathOf(d) == m.Base:
		return w.finishMerge(ctx, m)
	case d != nil && d.Mirror != nil:
		if err := w.waitForBlockCommit(ctx, s.ref, m, active, func(int) {}); err != nil {
			return err
		}
		return w.finishMerge(ctx, m)
	case d != nil:
		jobs, err := conn.Call(ctx, w.c, func(l *golibvirt.Libvirt) (int32, error) {
			jobs, _, _, _, _, err := l.DomainGetBlockJobInfo(s.ref, domxml.DiskTargetOf(d), 0)
			return jobs, err
		})
		if err != nil {
			return err
		}
		if jobs != 0 {
			if err := w.waitForBlockCommit(ctx, s.ref, m, active, func(int) {}); err != nil {
				return err
			}
			return w.finishMerge(ctx, m)
		}
		over := !active && w.isOverlayBackedByBase(m)
		if active {
			if over, err = w.hasPivoted(ctx, m, active); err != nil {
				return err
			}
		}
		if over {
			return w.finishMerge(ctx, m)
		}
	case live == nil && active && definitionUsesBase(s.persistentXML, m):
		return w.finishMerge(ctx, m)
	case live == nil && active && note.Step == hypervisor.SnapStepPivoting:
		if err := w.checkSameContent(ctx, m); err != nil {
			return err
		}
		return w.finishMerge(ctx, m)
	case live == nil && !active && w.isOverlayBackedByBase(m):
		return w.finishMerge(ctx, m)
	}
	return w.removeOperationRecord()
}

// definitionUsesBase reports whether the inactive definition names the base as the disk's file.
func definitionUsesBase(x *libvirtxml.Domain, m hypervisor.SnapMerge) bool {
	d := domainDiskOf(x, m.Disk)
	return d != nil && domxml.DiskPathOf(d) == m.Base
}

// isOverlayBackedByBase reports whether an overlay of the top is already backed by the base, which is the last step of QEMU's
// merge.
func (w *snapshotJob) isOverlayBackedByBase(m hypervisor.SnapMerge) bool {
	for _, l := range w.tree.LayersBackedBy(m.Top) {
		if refs := hostfile.ReadReferences(l.File); len(refs) == 1 && filepath.Clean(refs[0].Path) == m.Base {
			return true
		}
	}
	return false
}
