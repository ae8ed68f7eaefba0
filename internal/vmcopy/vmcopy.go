// Package vmcopy decides which copies of a VM can be made now: templates, clones and exports. It also removes the VM's
// identity from a copied spec.
package vmcopy

import (
	"fmt"
	"slices"

	"quantix/internal/fleet"
)

// IdentityFields are the fields that WithoutIdentity clears.
var IdentityFields = []string{"placement.overcommit", "iso", "boot.kernel", "boot.initrd", "boot.cmdline", "firstBoot", "hostDevices", "shares"}

// WithoutIdentity returns the spec without the VM's identity: power, media, disk volumes and MAC addresses. It removes
// the permission to start by overcommit, and resets a NIC's settings that follow a port group, and a disabled
// anti-spoofing, to the defaults of the user who creates the next VM.
func WithoutIdentity(s fleet.VMSpec) fleet.VMSpec {
	s.Power, s.ISO, s.FirstBoot, s.Placement.Overcommit = "", nil, fleet.VMFirstBoot{}, false
	s.HostDevices, s.Shares, s.Boot.Kernel, s.Boot.Initrd, s.Boot.Cmdline = nil, nil, nil, nil, ""
	s.Drives = slices.Clone(s.Drives)
	for i := range s.Drives {
		s.Drives[i].Medium = nil
	}
	disks := make([]fleet.Disk, len(s.Disks))
	for i, d := range s.Disks {
		d.Volume, d.Image, d.Existing, d.Shareable, d.Encryption = "", nil, false, false, ""
		d.ImageID, d.VersionID, d.ImageSHA256, d.Overlay, d.Serial = "", "", "", false, ""
		disks[i] = d
	}
	nics := make([]fleet.NIC, len(s.NICs))
	for i, n := range s.NICs {
		n.MAC = ""
		if n.DefaultGroups {
			n.SecurityGroups, n.DefaultGroups = nil, false
		}
		if n.DefaultAntiSpoofing || n.AntiSpoofing != nil && !*n.AntiSpoofing {
			n.AntiSpoofing, n.DefaultAntiSpoofing = nil, false
		}
		nics[i] = n
	}
	s.Disks, s.NICs = disks, nics
	return s
}

// NeedsTemporarySnapshot reports whether a copy of the VM's disks needs a temporary snapshot, because the guest may
// write to the disks or they consist of snapshot overlays.
func NeedsTemporarySnapshot(v fleet.VMView) bool {
	on := v.HasGuest() || v.RequestedPower != "" && v.RequestedPower != fleet.Stopped
	return len(v.Spec.Disks) > 0 && (on || v.WhySnapshotsBlockDiskJobs() != "")
}

// whyNotCopyable returns why the VM's disks cannot be copied now; empty: they can be copied. what names the refused
// copy, such as "no image".
func whyNotCopyable(v fleet.VMView, what string) string {
	if v.Phase == fleet.PhaseDeleting {
		return "The VM is being deleted."
	}
	for i, d := range v.Spec.Disks {
		if d.Encryption != "" {
			return fmt.Sprintf("Disk %d is encrypted with a passphrase that only its host has, so %s of it can be created.", i+1, what)
		}
		if d.Shareable {
			return fmt.Sprintf("Disk %d is shared with other VMs, so %s of it can be created.", i+1, what)
		}
		if d.Existing {
			return fmt.Sprintf("Disk %d is a LUN, so %s of it can be created.", i+1, what)
		}
		if why := d.WhyRawNotCopied(); why != "" {
			return fmt.Sprintf("Disk %d %s", i+1, why)
		}
		if v.MissingDiskFault(d.Ref()) != nil {
			return v.MissingDiskFault(d.Ref()).Text
		}
	}
	if NeedsTemporarySnapshot(v) {
		_, why := v.AllowsNewSnapshot(nil)
		return why
	}
	for _, d := range v.Spec.Disks {
		if ok, why := v.AllowsImage(d.Ref()); !ok {
			return why
		}
	}
	return ""
}

// AllowsTemplate reports whether a template can be created from the VM's current disks; the string is the reason if
// not.
func AllowsTemplate(v fleet.VMView) (bool, string) {
	why := whyNotCopyable(v, "no image")
	return why == "", why
}

// AllowsTemplateOfImages reports whether a template can be created from the images that the VM's disks were created
// from, regardless of the disks' current content. The string is the reason if not.
func AllowsTemplateOfImages(v fleet.VMView) (bool, string) {
	if v.Phase == fleet.PhaseDeleting {
		return false, "The VM is being deleted."
	}
	for i, d := range v.Spec.Disks {
		if d.ImageID == "" || d.VersionID == "" {
			return false, fmt.Sprintf("Disk %d was not created from a library image. Create the template from copies of the VM's disks.", i+1)
		}
	}
	return true, ""
}

// AllowsClone reports whether the VM can be cloned now; the string is the reason if not. It does not check for
// unfinished snapshot jobs.
func AllowsClone(v fleet.VMView) (bool, string) {
	why := whyNotCopyable(v, "no copy")
	return why == "", why
}

// AllowsExport reports whether the VM can be exported now; the string is the reason if not.
func AllowsExport(v fleet.VMView) (bool, string) {
	ok, why := AllowsClone(v)
	switch {
	case !ok:
		return false, why
	case len(v.Spec.Disks) == 0:
		return false, "The VM has no disk to export."
	case v.WhySnapshotsBlockDiskJobs() != "":
		return false, "The VM has snapshots. Delete them first, or clone the VM and export the clone."
	case NeedsTemporarySnapshot(v):
		return false, "The VM is on. Shut it down first, or clone it and export the clone."
	}
	return true, ""
}
