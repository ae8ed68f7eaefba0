package connectivity_test

import (
	"errors"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"quantix/internal/connectivity"
	"quantix/internal/fleet"
	"quantix/internal/secgroup"
)

const someID = "01a206b5-2a62-7003-a101-340befa69b68"

// Questions about impossible packets are refused, because the evaluation would answer that the packets pass.
func TestConnectivityCheckRefusesMixedAddressFamilies(t *testing.T) {
	t.Parallel()
	const four, six = "10.0.0.7", "2001:db8::7"
	for _, c := range []struct {
		protocol secgroup.Protocol
		from, to string
		at       string // empty: valid
	}{
		{secgroup.TCP, four, four, ""},
		{secgroup.TCP, six, six, ""},
		{secgroup.TCP, four, "", ""},
		{secgroup.TCP, "::ffff:10.0.0.7", four, ""},
		{secgroup.ICMP, four, "", ""},
		{secgroup.ICMPv6, "", six, ""},
		{secgroup.TCP, four, six, "to.address"},
		{secgroup.UDP, six, four, "to.address"},
		{secgroup.ICMP, six, "", "from.address"},
		{secgroup.ICMPv6, "", four, "to.address"},
		{secgroup.ICMPv6, four, four, "from.address"},
	} {
		q := connectivity.ConnectionQuery{From: connectivity.ConnectionEnd{VMID: someID, Address: c.from}, To: connectivity.ConnectionEnd{VMID: someID, Address: c.to}, Protocol: c.protocol}
		if c.protocol == secgroup.TCP || c.protocol == secgroup.UDP {
			q.Port = 80
		}
		var checks fleet.Checks
		q.Check(&checks)
		var err *fleet.Error
		switch refused := errors.As(checks.Err(), &err); {
		case refused != (c.at != ""), refused && !slices.ContainsFunc(err.Fields, func(f fleet.FieldError) bool { return f.Field == c.at }):
			t.Errorf("%+v: %v", c, checks.Err())
		}
	}
}

// A packet that anti-spoofing drops does not pass, even if a rule allows it.
func TestAntiSpoofingDropsForeignSourceAddress(t *testing.T) {
	t.Parallel()
	ask := func(nic connectivity.ConnectionNIC, address string) connectivity.PassAnswer {
		q := connectivity.ConnectionQuery{From: connectivity.ConnectionEnd{VMID: someID, Address: address}, To: connectivity.ConnectionEnd{Address: "10.0.0.9"}, Protocol: secgroup.TCP, Port: 80}
		return connectivity.EvaluateConnection(q, &nic, nil, func(fleet.SecurityGroupID, string) string { return "" })
	}
	nic := connectivity.ConnectionNIC{VMID: someID, AntiSpoofing: true, Addresses: []netip.Addr{netip.MustParseAddr("2001:db8::7"), netip.MustParseAddr("10.0.0.7")}}
	if out := ask(nic, "10.0.0.8"); out.Pass || !out.Known || !strings.Contains(out.From.Why, "10.0.0.8") {
		t.Errorf("another address: %+v", out)
	}
	for _, address := range []string{"", "10.0.0.7"} {
		if out := ask(nic, address); !out.Pass {
			t.Errorf("the NIC's own address %q: %+v", address, out)
		}
	}
	free, unknown := nic, nic
	free.AntiSpoofing, unknown.Addresses = false, nil
	if !ask(free, "10.0.0.8").Pass || !ask(unknown, "10.0.0.8").Pass {
		t.Error("a packet is dropped without anti-spoofing, or while the NIC's addresses are unknown")
	}
}
