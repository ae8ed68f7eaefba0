package views

import "quantix/internal/fleet"

// VMForm is what a person typed to make a VM, and what there is to choose from.
type VMForm struct {
	Key                                      string // the same for all submits of one rendered form
	Name, Project, Host, Labels, Description string
	CPUs, Memory, Unit, Firmware, ISO        string
	Start                                    bool
	Overcommit, MayOvercommit                bool // see control.CreateVM
	Disks                                    []DiskRow
	NICs                                     []NICRow
	Errors                                   Errors

	Projects, Hosts, Pools, Images, ISOs, Networks Choices
}

// DiskRow is one disk: "empty" in a pool, or "image": cloned.
type DiskRow struct{ Source, Pool, Size, Image string }

// NICRow is one network card; On is "libvirt:<name>" or "bridge:<name>".
type NICRow struct{ On, MAC string }

// Volume is a volume as a choice's value.
func Volume(pool fleet.PoolID, volume string) string { return string(pool) + "/" + volume }
