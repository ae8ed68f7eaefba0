package fleet

import "time"

// AdoptionParams are the arguments of a job that reads a discovered VM for its adoption.
type AdoptionParams struct {
	ProjectID ProjectID `json:"projectId"`
	Name      string    `json:"name,omitempty"` // the new VM's name; empty: the domain's name
}

// AdoptableVM is a domain without Quantix metadata, as its host reads it for an adoption.
type AdoptableVM struct {
	Name        string   `json:"name"` // the domain's name
	Description string   `json:"description,omitempty"`
	Spec        VMSpec   `json:"spec"`               // NICs name their libvirt network or bridge, disks their volume in a pool
	Backing     []Volref `json:"backing,omitempty"`  // volumes that back the disks' files
	Verbatim    []string `json:"verbatim,omitempty"` // see Adoption.Verbatim
	Refusals    []string `json:"refusals,omitempty"` // reasons against an adoption, each a sentence; empty: the host allows it
}

// Adoption describes how a VM came under the control of Quantix. VMs that Quantix created have none.
type Adoption struct {
	At time.Time `json:"at"`
	By string    `json:"by,omitempty"` // name of the person who requested the adoption; empty: unknown
	// HostName is the name that the host had at the adoption. It is hidden from users who may not see hosts.
	HostName string `json:"hostName,omitempty"`
	// Verbatim lists the parts of the definition that the spec does not express, each as a short text. Quantix keeps them
	// unchanged.
	Verbatim []string `json:"verbatim"`
}

// TransientAdoptionRefusal is why a domain without a persistent definition is not adopted.
const TransientAdoptionRefusal = "The host has no persistent definition of the VM, so the VM would be lost when its guest stops. Define the VM with virsh on the host first (virsh dumpxml, then virsh define)."
