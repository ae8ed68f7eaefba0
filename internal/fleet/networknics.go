package fleet

import "fmt"

// DirectMode is how guests that are straight on a device of a host (macvtap) get on with one another; empty: they reach one another.
type DirectMode string

const (
	DirectPrivate     DirectMode = "private"     // never, on one host
	DirectVEPA        DirectMode = "vepa"        // through the switch outside, which must send packets back to where they came from
	DirectPassthrough DirectMode = "passthrough" // the device is one card's alone
)

// DirectModes lists them, in the order in which people choose.
func DirectModes() []DirectMode {
	return []DirectMode{"", DirectPrivate, DirectVEPA, DirectPassthrough}
}

// Word is the mode as people read it; empty: there is no such one.
func (m DirectMode) Word() string {
	switch m {
	case "":
		return "Bridge"
	case DirectPrivate:
		return "Private"
	case DirectVEPA:
		return "VEPA"
	case DirectPassthrough:
		return "Passthrough"
	}
	return ""
}

// Help says what it means for guests.
func (m DirectMode) Help() string {
	switch m {
	case DirectPrivate:
		return "Guests of one host do not reach one another, only what is outside."
	case DirectVEPA:
		return "Guests of one host reach one another through the switch outside, which must send packets back by the port that they came from (hairpin)."
	case DirectPassthrough:
		return "The device is one card's alone, on each host: the guest decides what it sends, and nobody else is on it."
	}
	return "Guests of one host reach one another, and what is outside."
}

func checkDirect(s NetworkSpec) string {
	if s.Direct.Word() == "" {
		var words []string
		for _, m := range DirectModes()[1:] {
			words = append(words, string(m))
		}
		return fmt.Sprintf("How guests get on with one another on their device is %s, or empty: they reach one another.", quotedOr(words))
	}
	return ""
}

// Forward is libvirt's word for how the network leads out.
func (s NetworkSpec) Forward() string {
	if s.Direct != "" {
		return string(s.Direct)
	}
	return s.Mode.Is().Forward
}

// Counted reports whether each card on the network takes something of its host for itself alone, of which there is not more than there is.
func (s NetworkSpec) Counted() bool {
	return s.Mode == NetworkSRIOV || s.Direct == DirectPassthrough
}

// NetworkNICs is how many cards a host can put on a network whose cards are Counted.
type NetworkNICs struct {
	Total int `json:"total"` // virtual functions that are switched on; of a device with passthrough: 1
	Used  int `json:"used"`  // by guests that run, whoever made them
}

// Short says that more cards are on the network than the host has room for; empty: all can run.
func (c NetworkNICs) Short(s NetworkSpec, cards int) string {
	switch {
	case cards <= c.Total || c.Total == 0:
		return ""
	case s.Mode == NetworkSRIOV:
		return fmt.Sprintf("The device %s has %s now, and %d cards of VMs here are to have one each: not all of these VMs can start.", s.Device, functions(c.Total), cards)
	}
	return fmt.Sprintf("The device %s is for one card alone, and %d cards of VMs here are on it: not all of these VMs can start.", s.Device, cards)
}

func functions(n int) string {
	if n == 1 {
		return "1 virtual function"
	}
	return fmt.Sprintf("%d virtual functions", n)
}
