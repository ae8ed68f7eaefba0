package fleet

import (
	"fmt"
	"strings"
	"time"
)

// ExportLife is how long a file that was exported lies in its pool, for somebody to fetch it.
const ExportLife = 48 * time.Hour

// MaxExports bounds the exports of one project that lie in pools.
const MaxExports = 10

// ExportOrder is what goes into an archive. Its appliance has no secret of the VM's: neither its first boot's data, nor keys, nor MAC addresses.
type ExportOrder struct {
	Appliance Appliance `json:"appliance"` // its disks' members are the names that they get
	Disks     []Volref  `json:"disks"`     // in the order of the appliance's
}

// ExportFormats are what a VM is exported as.
var ExportFormats = []string{FormatOVA, "qcow2"}

// ExportID names an export.
type ExportID string

// Export is a file that was made of a VM, or of one of its disks, for somebody to download.
type Export struct {
	ID        ExportID  `json:"id"`
	VMID      VMID      `json:"vmId"`
	ProjectID ProjectID `json:"projectId"`
	TaskID    TaskID    `json:"taskId"`
	Format    string    `json:"format" enum:"ova,qcow2"`
	Disk      int       `json:"disk,omitempty"` // which of the VM's disks, from 1; 0: all
	Volume    string    `json:"volume"`         // the file's name
	PoolID    PoolID    `json:"poolId,omitempty"`
	HostID    HostID    `json:"hostId,omitempty"` // for those who see hosts
	State     JobState  `json:"state"`            // of its task
	Progress  int       `json:"progress"`
	Note      string    `json:"note,omitempty"`
	Error     string    `json:"error,omitempty"`
	CreatedBy string    `json:"createdBy"`
	CreatedAt time.Time `json:"createdAt"`
	ExpiresAt time.Time `json:"expiresAt"` // then the file is deleted
}

// AllowsDownload says whether the file can be fetched now, and if not, why.
func (e Export) AllowsDownload() (bool, string) {
	switch {
	case !e.State.Ended():
		return false, "It is being made. Wait until that is done."
	case e.State != JobDone:
		return false, "It was not made: " + e.Error
	}
	return true, ""
}

// ApplianceOf is how a VM is described to others, with its disks as files of an archive. networks are the names of its cards' networks.
func ApplianceOf(v VMView, networks []string) Appliance {
	a := Appliance{Name: v.Name, CPUs: v.Spec.CPUs, MemoryMiB: v.Spec.MemoryMiB, Firmware: v.Spec.Firmware}
	if g := v.Status; g != nil && g.Guest != nil {
		a.OS = g.Guest.OS
		switch text := strings.ToLower(a.OS); {
		case strings.Contains(text, "windows"):
			a.Family = "windows"
		case strings.Contains(text, "bsd"):
			a.Family = "bsd"
		case text != "":
			a.Family = "linux"
		}
	}
	ide := 0
	for i, d := range v.Spec.Disks {
		controller := "pvscsi" // as virtio is: made for virtual machines
		switch {
		case d.Bus == "ide" && ide < 2: // as many as one controller has
			controller, ide = d.Bus, ide+1
		case d.Bus == "sata" || d.Bus == "usb" || d.Bus == "ide":
			controller = "sata"
		case d.Bus == "nvme":
			controller = d.Bus
		}
		a.Disks = append(a.Disks, ApplianceDisk{Member: fmt.Sprintf("%s-disk%d.vmdk", v.Name, i+1), Format: "vmdk", SizeBytes: v.DiskBytes(d), Controller: controller})
	}
	for i, n := range v.Spec.NICs {
		card := ApplianceNIC{Model: "vmxnet3"}
		if n.Model != "" {
			card.Model = "e1000e"
		}
		if i < len(networks) {
			card.Network = networks[i]
		}
		a.NICs = append(a.NICs, card)
	}
	return a
}

// NotExported is what a VM has and its export has not, a sentence each.
func NotExported(v VMView) []string {
	out := []string{"Snapshots, MAC addresses, security groups, limits and policies: a copy gets its own."}
	if v.Spec.FirstBoot != (VMFirstBoot{}) {
		out = append(out, "What its guest was told when it first started (users, keys, passwords of the first boot).")
	}
	if v.Spec.Firmware == UEFI {
		out = append(out, "The firmware's variables (NVRAM) with boot entries and secure boot's keys: the copy's firmware looks for the boot loader anew.")
	}
	if v.Spec.Boot.Machine != "" {
		out = append(out, "Its machine (pc): choose it for the copy, whose guest may know no other.")
	}
	if v.Spec.Security.TPM {
		out = append(out, "The TPM's state: what the guest has sealed with it (BitLocker, LUKS) needs its recovery key in the copy.")
	}
	if v.Spec.ISO != nil {
		out = append(out, "The disc in its drive.")
	}
	return out
}

// AllowsExport says whether the VM can be exported now, and if not, why.
func (v VMView) AllowsExport() (bool, string) {
	ok, why := v.AllowsClone()
	switch {
	case !ok:
		return false, why
	case len(v.Spec.Disks) == 0:
		return false, "It has no disk, so there is nothing to export but its settings."
	case v.HeldBySnapshots() != "":
		return false, "The VM has snapshots. Delete them first, or clone the VM and export the clone."
	case v.CopiedFromSnapshot():
		return false, "The VM is on. Shut it down first, or clone it and export the clone."
	}
	return true, ""
}
