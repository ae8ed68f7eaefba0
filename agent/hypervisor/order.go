package hypervisor

import (
	"context"
	"fmt"

	"quantix/internal/fleet"
)

// Apply is the order to create a VM's disks and definition. All fields are required unless noted.
type Apply struct {
	VM      fleet.VM
	Project string         // the project's name: see DomainNames
	Pools   []fleet.Pool   // all pools that the spec names and that are assigned to this host
	Made    []fleet.Volref // disks that were complete once: none of them is ever created again
	// Stamped is the generation that this agent applied last; 0: unknown. A definition with an older stamp was restored
	// by somebody and does not contain the last applied spec.
	Stamped int64
	// SpecHash is the portal's hash of the order's spec. Two hashes for one generation mean that the portal's database was
	// restored from a backup between them.
	SpecHash string
	Mark     string            // the VM's secret, stored in the domain's metadata; empty: keep the present one
	Groups   []fleet.FlatGroup // all security groups of the VM's NICs
	Reapply  bool              // write the complete spec, also over edits made on the host
	// FirstBoot fetches the files of the first-boot data, by name. It is called only if the host does not have them;
	// nil: they cannot be fetched.
	FirstBoot func(context.Context) (map[string][]byte, error)
	// Whole receives each disk once its content is complete, before a definition names it. Its error ends the order: an
	// unrecorded disk would be created twice.
	Whole    func(fleet.Volref) error
	Progress Progress
}

// Unknown reports whether the definition with this generation is no base for a three-way merge: an administrator
// restored an older definition, or the portal's database was restored and has no record of the spec that was applied.
func (in Apply) Unknown(stamped int64, was Applied) bool {
	return stamped < in.Stamped || stamped > in.VM.Generation ||
		stamped == in.VM.Generation && in.SpecHash != "" && was.SpecHash != "" && was.SpecHash != in.SpecHash
}

// DomainNames returns the candidates for the VM's domain name, best first: the VM's name, that name with the project's
// if another domain has it, and with the end of the VM's id if even that is taken. No VM or project has a "_" in its
// name.
func DomainNames(vm, project string, id fleet.VMID) []string {
	const most = 200 // bytes: libvirt derives file names from it
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

// MissingDisk returns the fault of a disk that was created and is missing. why is a sentence, such as "Its file is
// missing."
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

// Reasons why a disk is missing, shared by both backends.
const (
	FileReplaced  = "a link, a device or a folder stands in its place, and a disk is a plain file of its pool. Put the file itself back, detach the disk, or give the VM a new one."
	FileMissing   = "its file is missing. Restore it, detach the disk, or give the VM a new one."
	VolumeMissing = "its storage has no such volume. Restore it, detach the disk, or give the VM a new one."
	PoolInactive  = "the pool is not active there. Start the pool."
	PoolElsewhere = "what is in the place of the pool there is not the pool. See to the pool."
)

// Refusal returns the fault as an order's error.
func Refusal(f fleet.Fault) error { return fleet.Errorf(fleet.Conflict, "%s", f.Text) }

// OddFile returns the fault of a VM that uses a file outside the pools, other than its disks: in a CD drive, as a
// kernel, or as a backing file.
func OddFile(path, host string) fleet.Fault {
	return fleet.Fault{Code: fleet.FaultDisk, Text: fmt.Sprintf("The VM uses %s, which is no plain file of a pool on %s but a link, a device or something outside, so no guest is started with it. "+
		"Put the file itself there, or take it out of the VM.", path, host)}
}

// Undefined returns the fault of a guest whose definition was removed.
func Undefined() fleet.Fault {
	return fleet.Fault{Code: fleet.FaultUndefined, Text: "Its definition was removed on the host while it runs: it will be gone when it stops. Put it back to keep it."}
}

// Lost returns the fault of a running guest that libvirt takes for off. kept is libvirt's state file that could not be
// read.
func Lost(pid int, kept string) fleet.Fault {
	return fleet.Fault{Code: fleet.FaultLost, Text: fmt.Sprintf("libvirt has lost it: it says that it is off, but its QEMU (process %d) runs on, and nothing is done to it. "+
		"libvirt's log says why it could not read %s. Mend that file and restart libvirt, or end that process.", pid, kept)}
}

// StorageFault returns the fault of a guest that QEMU paused because of a disk. full: its storage is full; else QEMU
// gave no reason.
func StorageFault(which string, ref *fleet.Volref, full bool) fleet.Fault {
	f := fleet.Fault{Code: fleet.FaultIO, Disk: ref, Text: "QEMU paused it, because " + which + " could not be written or read. See to its storage, then resume it."}
	if full {
		f.Text = "QEMU paused it, because the storage of " + which + " is full. Make room there, then resume it."
	}
	return f
}
