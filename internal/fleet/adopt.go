package fleet

// Adoptability says whether Quantix can adopt a pool or network that a host defined, and what Quantix cannot express.
type Adoptability struct {
	// Kept lists parts of the host's definition that Quantix has no fields for, and that adoption leaves unchanged.
	Kept []string `json:"kept,omitempty"`
	// Refusal is why Quantix cannot adopt the object, as a sentence; empty: Quantix can.
	Refusal string `json:"refusal,omitempty"`
}

// HostNetworkDefinition is a host's own definition of a network, as a spec for its adoption.
type HostNetworkDefinition struct {
	Spec *NetworkSpec `json:"spec,omitempty"` // nil: Refusal says why
	Adoptability
}

// AdoptedReapplyRefusal is why an adopted network cannot be reapplied.
const AdoptedReapplyRefusal = "The network existed on the host before Quantix, which never changes its definition. Accept the drift, or undo the edit with virsh net-edit."

// IsAdopted reports whether the network existed on its hosts before Quantix.
func (n Network) IsAdopted() bool { return n.Spec != nil && n.Spec.Adopted }
