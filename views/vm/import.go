package vm

import (
	"strconv"
	"strings"
	"time"

	"quantix/internal/export"
	"quantix/internal/fleet"
	"quantix/views"
	"quantix/views/kit"
)

// ImportPath is the address of the page of importable files.
const ImportPath = "/vms/import"

// ImportPage lists the files that VMs can be imported from.
type ImportPage struct {
	Actor fleet.Actor
	Link  kit.Link
	Files []ImportFile
	Pools []kit.NamedLink // pools that accept uploads

	Uploads []fleet.Upload // the actor's own unfinished uploads
}

// ImportFile is one importable file.
type ImportFile struct {
	fleet.Volume
	Pool, Host kit.NamedLink
	HostID     fleet.HostID // set for a local pool
	PoolID     fleet.PoolID
	Why        string // why the file cannot be imported now
}

// ImportFormPath is the address of the form that imports a VM from the file. The host is set for a local pool.
func ImportFormPath(pool fleet.PoolID, host fleet.HostID, volume string) string {
	link := kit.Link{Path: "/vms/new"}.With("import", volume).With("pool", string(pool))
	if host != "" {
		link = link.With("host", string(host))
	}
	return link.String()
}

func (f ImportFile) id() string { return string(f.PoolID) + "-" + string(f.HostID) + "-" + f.Name }

// kindText is the file's kind, in words.
func (f ImportFile) kindText() string {
	if f.Format == fleet.FormatOVA {
		return "OVA archive"
	}
	if f.Format == "vpc" {
		return "VHD disk"
	}
	return strings.ToUpper(f.Format) + " disk"
}

// contentsText describes the file's contents.
func (f ImportFile) contentsText() string {
	a := f.Appliance
	words := []string{}
	if a.CPUs > 0 {
		words = append(words, kit.CountText(a.CPUs, "vCPU"))
	}
	if a.MemoryMiB > 0 {
		words = append(words, kit.Bytes(int64(a.MemoryMiB)<<20)+" memory")
	}
	total := int64(0)
	for _, d := range a.Disks {
		total += d.SizeBytes
	}
	if len(a.Disks) > 0 {
		words = append(words, kit.CountText(len(a.Disks), "disk")+" of "+kit.Bytes(total))
	}
	if len(a.NICs) > 0 {
		words = append(words, kit.CountText(len(a.NICs), "NIC"))
	}
	return strings.Join(words, ", ")
}

// ExportPage is the dialog that exports a VM, with the list of its exports.
type ExportPage struct {
	VM     fleet.VMView
	Now    time.Time
	Why    string // why the VM cannot be exported now
	Files  []export.File
	Pools  []kit.Option // pools of the VM's disks
	In     ExportForm
	Errors kit.Errors
}

// ExportForm holds the format and the pool that a person chose for an export.
type ExportForm struct{ What, Pool string }

// deletedAtText describes when the exported file is deleted.
func (p ExportPage) deletedAtText(e export.File) string {
	left := e.ExpiresAt.Sub(p.Now)
	if left < time.Hour {
		return "within the hour"
	}
	return "in " + kit.CountText(int(left.Hours()+0.5), "hour")
}

// formatOptions are the export formats: "ova", or "qcow2" with a disk's index.
func (p ExportPage) formatOptions() []kit.Option {
	out := []kit.Option{{Value: fleet.FormatOVA, Text: "OVA archive: " + kit.CountText(len(p.VM.Spec.Disks), "disk") + " as VMDK, with its settings"}}
	for i, d := range p.VM.Spec.Disks {
		n := strconv.Itoa(i + 1)
		out = append(out, kit.Option{Value: "qcow2/" + n, Text: "Disk " + n + " as qcow2 (" + kit.Bytes(p.VM.DiskBytes(d)) + ")"})
	}
	return out
}

// ExportDownloadPath is the download address of an export.
func ExportDownloadPath(id fleet.ExportID) string { return "/exports/" + string(id) + "/content" }

func exportFormatText(e export.File) string {
	if e.Disk > 0 {
		return "Disk " + strconv.Itoa(e.Disk) + " as qcow2"
	}
	return "OVA archive"
}

func (p ExportPage) deleteExportAction(e export.File) kit.ActionButton {
	why := ""
	if !e.State.IsFinal() {
		why = "The export is running. Cancel its task first."
	}
	return kit.ActionButton{
		Icon: "trash-2", Word: "Delete", Label: "Delete " + e.Volume, Post: "/exports/" + string(e.ID) + "/delete", Back: views.VMPath(p.VM.ID, "export"),
		Confirm: "Delete the file " + e.Volume + "?", Danger: true,
	}.DisableFor(why)
}

func exportAction(vm fleet.VMView) kit.ActionButton {
	return kit.ActionButton{Icon: "download", Word: "Export", Href: views.VMPath(vm.ID, "export")}
}
