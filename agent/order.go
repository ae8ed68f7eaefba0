package agent

import (
	"context"
	"fmt"

	"quantix/internal/fleet"
)

// Apply is the order to make a VM's disks and definition. All of it is needed.
type Apply struct {
	VM      fleet.VM
	Project string         // the name of the VM's project: see DomainNames
	Pools   []fleet.Pool   // every pool that the spec names and this host is assigned
	Made    []fleet.Volref // disks that were whole at some time: none of them is ever made again
	// Stamped is the generation that this agent applied last; 0: not known. A definition with an older stamp is one that somebody
	// restored: it does not tell what was applied last.
	Stamped int64
	// SpecHash is the portal's hash of the order's spec. Two hashes for one generation mean that the portal's database was
	// restored from a backup between them.
	SpecHash string
	Mark     string            // the VM's secret, which the domain carries wherever it goes; empty: what it has stays
	Groups   []fleet.FlatGroup // every security group that a card of the VM is in
	Reapply  bool              // write all of the spec, also what somebody changed on the host
	// FirstBoot fetches what the guest reads when it first starts, as files by name. It is asked only where the host does not have it; nil: it
	// cannot be had.
	FirstBoot func(context.Context) (map[string][]byte, error)
	// Whole is told of a disk as soon as it is, before a definition names it. Its error ends the order: what nobody keeps would
	// be made twice.
	Whole    func(fleet.Volref) error
	Progress Progress
}

// Unknown reports whether the definition with this generation is no base for a three-way merge: an administrator restored
// an older definition, or the portal's database was restored and has no record of the spec that was applied.
func (in Apply) Unknown(stamped int64, was Applied) bool {
	return stamped < in.Stamped || stamped > in.VM.Generation ||
		stamped == in.VM.Generation && in.SpecHash != "" && was.SpecHash != "" && was.SpecHash != in.SpecHash
}

// DomainNames are the names that the VM's domain may have, best first: its own, with its project's where another domain has
// that name, and with the end of its id where even that is taken. No VM or project has a "_" in its name.
func DomainNames(vm, project string, id fleet.VMID) []string {
	const most = 200 // bytes: libvirt makes file names of it
	cut := func(s string, n int) string { return s[:min(len(s), n)] }
	unique := "_" + cut(string(id[max(0, len(id)-12):]), 8)
	long := vm
	if project != "" {
		long += "_" + project
	}
	names := []string{cut(vm, most), cut(long, most), cut(long, most-len(unique)) + unique}
	if project == "" {
		return []string{names[0], names[2]}
	}
	return names
}

// MissingDisk is the fault of a disk that was made and is not there. why is a sentence, such as "Its file is missing."
func MissingDisk(number int, ref fleet.Volref, pool, host, why string) fleet.Fault {
	in := "volume " + ref.Volume
	if pool != "" {
		in = "pool " + pool + ", " + in
	}
	f := fleet.Fault{Code: fleet.FaultDisk, Text: fmt.Sprintf("Disk %d (%s) is not on %s: %s", number, in, host, why)}
	if ref.PoolID != "" {
		f.Disk = &ref
	}
	return f
}

// Why a disk is not there, in the words of both backends.
const (
	FileReplaced  = "a link, a device or a folder stands in its place, and a disk is a plain file of its pool. Put the file itself back, detach the disk, or give the VM a new one."
	FileMissing   = "its file is missing. Restore it, detach the disk, or give the VM a new one."
	VolumeMissing = "its storage has no such volume. Restore it, detach the disk, or give the VM a new one."
	PoolInactive  = "the pool is not active there. Start the pool."
	PoolElsewhere = "what is in the place of the pool there is not the pool. See to the pool."
)

// Refusal is the fault as an order's error.
func Refusal(f fleet.Fault) error { return fleet.Errorf(fleet.Conflict, "%s", f.Text) }

// OddFile is the fault of a VM whose definition leads out of a pool, beside its disks: in a drive, as a kernel, or below a disk.
func OddFile(path, host string) fleet.Fault {
	return fleet.Fault{Code: fleet.FaultDisk, Text: fmt.Sprintf("The VM uses %s, which is no plain file of a pool on %s but a link, a device or something outside, so no guest is started with it. "+
		"Put the file itself there, or take it out of the VM.", path, host)}
}

// Undefined is the fault of a guest whose definition is gone.
func Undefined() fleet.Fault {
	return fleet.Fault{Code: fleet.FaultUndefined, Text: "Its definition was removed on the host while it runs: it will be gone when it stops. Put it back to keep it."}
}

// Lost is the fault of a guest that runs though its hypervisor takes it for off. kept is the file that the hypervisor could not read.
func Lost(pid int, kept string) fleet.Fault {
	return fleet.Fault{Code: fleet.FaultLost, Text: fmt.Sprintf("libvirt has lost it: it says that it is off, but its QEMU (process %d) runs on, and nothing is done to it. "+
		"libvirt's log says why it could not read %s. Mend that file and restart libvirt, or end that process.", pid, kept)}
}

// StorageFault is the fault of a guest that QEMU paused because of a disk. full: its storage has no room; else QEMU did not say.
func StorageFault(which string, ref *fleet.Volref, full bool) fleet.Fault {
	f := fleet.Fault{Code: fleet.FaultIO, Disk: ref, Text: "QEMU paused it, because " + which + " could not be written or read. See to its storage, then resume it."}
	if full {
		f.Text = "QEMU paused it, because the storage of " + which + " is full. Make room there, then resume it."
	}
	return f
}
