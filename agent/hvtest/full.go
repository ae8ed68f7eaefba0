package hvtest

import "quantix/internal/fleet"

// FullSpec gives all that a back end's own tests may want to look for in the hypervisor: each field that a host here can start,
// none as usual.
func FullSpec(s fleet.VMSpec) fleet.VMSpec { return fullSpec(s) }

// FullDisk is the same of a disk.
func FullDisk(d fleet.Disk) fleet.Disk { return fullDisk(d) }

// FullNIC is the same of a network card.
func FullNIC(n fleet.NIC) fleet.NIC { return fullNIC(n) }
