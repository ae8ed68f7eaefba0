// Package migration has the parts of a live migration that need neither libvirt's connection nor the VM's state: the
// agents' messages, the sockets of the streams, and the parameters and statistics of libvirt's migration protocol.
package migration

import (
	"fmt"
	"strings"

	golibvirt "github.com/digitalocean/go-libvirt"

	agentlink "quantix/agent/migration"
	"quantix/internal/fleet"
)

// Link is the connection of the two agents.
type Link = agentlink.Link

// Messages of the agents. They are sent in this order: Offer, Answer, End, Result.
type (
	// Offer is the source's first message.
	Offer struct {
		XML string `json:"xml"` // the running guest's definition
		// Persistent is the definition for the next start. libvirt's cookie brings it to the target only at the end, when a
		// guest of a post-copy migration runs there already.
		Persistent string            `json:"persistent"`
		Cookie     []byte            `json:"cookie"` // of libvirt's Begin
		Inodes     map[string]string `json:"inodes"` // inode number of each file of the shared disks, by path
		Disks      []OfferedDisk     `json:"disks"`  // the copied disks, in the order of the job
	}
	// OfferedDisk is a disk that the migration copies.
	OfferedDisk struct {
		Target    string `json:"target"`    // in the definition, such as vda
		Bytes     int64  `json:"bytes"`     // virtual size
		Allocated int64  `json:"allocated"` // space that the copy needs
	}
	// Answer is the target's answer to the offer.
	Answer struct {
		Cookie []byte `json:"cookie"` // of Prepare
		Error  string `json:"error"`
		// OwnVariables: the target did not have a file of the VM's UEFI variables, so it does not share the source's
		OwnVariables bool `json:"ownVariables"`
	}
	// End is the end of the transfer.
	End struct {
		Cancelled bool   `json:"cancelled"` // the source has kept the guest
		Stopped   bool   `json:"stopped"`   // because a user cancelled the job
		Cookie    []byte `json:"cookie"`    // of Perform
	}
	// Result is the target's result.
	Result struct {
		Cookie []byte `json:"cookie"` // of Finish
		Error  string `json:"error"`  // why the VM does not run on the target; empty: it runs there
	}
)

// Params are the parameters of libvirt's migration phases.
type Params struct {
	Domain       string // the domain's name, for all phases
	MigrationURI string // empty: the phase needs none
	DisksURI     string
	Disks        []string // the copied disks' targets, such as vda
	DestXML      string
	PersistXML   string
	RateBytes    int64 // bandwidth limit in bytes per second; 0: none
	PostCopy     bool
	Channels     int // parallel connections; 0 or 1: one connection
}

// Flags returns the flags of all phases. libvirt considers only some file systems as shared, so its own check is off: the
// target compares each shared disk's file with the source's.
func Flags(disks []fleet.MigratingDisk, o fleet.MigrationOptions) golibvirt.DomainMigrateFlags {
	flags := golibvirt.MigrateLive | golibvirt.MigratePersistDest | golibvirt.MigrateUndefineSource | golibvirt.MigrateUnsafe
	for _, option := range []struct {
		on   bool
		flag golibvirt.DomainMigrateFlags
	}{
		{len(disks) > 0, golibvirt.MigrateNonSharedDisk},
		{o.AutoConverge, golibvirt.MigrateAutoConverge},
		{o.PostCopy, golibvirt.MigratePostcopy},
		{o.Channels > 1, golibvirt.MigrateParallel},
	} {
		if option.on {
			flags |= option.flag
		}
	}
	return flags
}

// List returns the parameters in libvirt's form.
func (p Params) List() (out []golibvirt.TypedParam) {
	text := func(field, value string) {
		if value != "" {
			out = append(out, golibvirt.TypedParam{Field: field, Value: *golibvirt.NewTypedParamValueString(value)})
		}
	}
	text(golibvirt.MigrateParamDestName, p.Domain)
	text(golibvirt.MigrateParamURI, p.MigrationURI)
	text(golibvirt.MigrateParamDestXML, p.DestXML)
	text(golibvirt.MigrateParamPersistXML, p.PersistXML)
	if len(p.Disks) > 0 {
		text(golibvirt.MigrateParamDisksURI, p.DisksURI)
	}
	for _, disk := range p.Disks {
		text(golibvirt.MigrateParamMigrateDisks, disk)
	}
	for field, on := range map[string]bool{golibvirt.MigrateParamBandwidth: p.RateBytes > 0, golibvirt.MigrateParamBandwidthPostcopy: p.RateBytes > 0 && p.PostCopy} {
		if on { // libvirt's unit is MiB/s
			out = append(out, golibvirt.TypedParam{Field: field, Value: *golibvirt.NewTypedParamValueUllong(max(1, uint64(p.RateBytes)>>20))})
		}
	}
	if p.Channels > 1 {
		out = append(out, golibvirt.TypedParam{Field: golibvirt.MigrateParamParallelConnections, Value: *golibvirt.NewTypedParamValueInt(int32(p.Channels))})
	}
	return out
}

// WasCopiedOnce reports whether job statistics show that the memory was sent once completely.
func WasCopiedOnce(stats map[string]int64) bool { return stats[golibvirt.DomainJobMemoryIteration] > 1 }

// Progress returns the progress that libvirt's job statistics mean.
func Progress(stats map[string]int64) (percent int, note string) {
	var parts []string
	amount := func(what string, left, total, rate int64) {
		if total == 0 {
			return
		}
		part := fmt.Sprintf("%s: %s left of %s", what, fleet.FormatBytes(left), fleet.FormatBytes(total))
		if rate > 0 {
			part += fmt.Sprintf(", %s/s", fleet.FormatBytes(rate))
		}
		parts = append(parts, part)
	}
	disks, disksLeft := stats[golibvirt.DomainJobDiskTotal], stats[golibvirt.DomainJobDiskRemaining]
	memory, memoryLeft := stats[golibvirt.DomainJobMemoryTotal], stats[golibvirt.DomainJobMemoryRemaining]
	amount("disks", disksLeft, disks, stats[golibvirt.DomainJobDiskBps])
	amount("memory", memoryLeft, memory, stats[golibvirt.DomainJobMemoryBps])
	if dirty := stats[golibvirt.DomainJobMemoryDirtyRate] * stats[golibvirt.DomainJobMemoryPageSize]; dirty > 0 {
		parts = append(parts, fmt.Sprintf("the guest changes %s/s", fleet.FormatBytes(dirty)))
	}
	if slowed := stats[golibvirt.DomainJobAutoConvergeThrottle]; slowed > 0 {
		parts = append(parts, fmt.Sprintf("the guest is slowed down by %d %%", slowed))
	}
	if downtime := stats[golibvirt.DomainJobDowntime]; downtime > 0 {
		parts = append(parts, fmt.Sprintf("expected pause %d ms", downtime))
	}
	if total := disks + memory; total > 0 {
		percent = int(100 * (total - disksLeft - memoryLeft) / total)
	}
	if len(parts) == 0 {
		parts = []string{"beginning the transfer"}
	}
	return min(percent, 99), strings.Join(parts, ", ")
}
