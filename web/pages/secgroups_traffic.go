package pages

import (
	"errors"
	"net/http"
	"net/netip"
	"strconv"
	"strings"

	"github.com/labstack/echo/v4"

	"quantix/internal/connectivity"
	"quantix/internal/fleet"
	"quantix/internal/secgroup"
	groupview "quantix/views/secgroup"
	"quantix/views/shell"
	"quantix/web/form"
)

// TrafficTestPage shows the form of the traffic test and, once submitted, the result. The form is sent by GET, so that
// users can share the address of a result.
func (s *Site) TrafficTestPage(c echo.Context, a fleet.Actor) error {
	ctx := c.Request().Context()
	p := groupview.PacketTestPage{
		Actor: a,
		From:  strings.TrimSpace(c.QueryParam("from")), FromNIC: strings.TrimSpace(c.QueryParam("fromCard")),
		To: strings.TrimSpace(c.QueryParam("to")), ToNIC: strings.TrimSpace(c.QueryParam("toCard")),
		Protocol: c.QueryParam("protocol"), Port: strings.TrimSpace(c.QueryParam("port")),
	}
	vms, err := s.Control.ListVMs(ctx, a, fleet.Query{Limit: 100})
	if err != nil {
		return err
	}
	for _, vm := range vms.Items {
		p.VMs = append(p.VMs, vm.Name)
	}
	status := http.StatusOK
	if p.From != "" || p.To != "" {
		var refused *fleet.Error
		answer, err := s.runTrafficTest(c, a, p)
		switch {
		case err == nil:
			p.Answer = &answer
		case errors.As(err, &refused) && refused.Code == fleet.Invalid:
			p.Errors, status, _ = form.ErrorsFrom(err)
		default:
			return err
		}
	}
	return s.ShowPageWithStatus(c, status, a, shell.PageLayout{Title: "Traffic test"}, groupview.PacketTest(p))
}

func (s *Site) runTrafficTest(c echo.Context, a fleet.Actor, p groupview.PacketTestPage) (connectivity.PassAnswer, error) {
	q := connectivity.ConnectionQuery{Protocol: secgroup.Protocol(p.Protocol)}
	var checks fleet.Checks
	if p.Port != "" && (q.Protocol == secgroup.TCP || q.Protocol == secgroup.UDP) {
		port, err := strconv.Atoi(p.Port)
		if err != nil {
			checks.Add("port", "Give the port as a number.")
		}
		q.Port = port
	}
	var err error
	if q.From, err = s.resolveTrafficEndpoint(c, a, p.From, p.FromNIC, "from", &checks); err == nil {
		q.To, err = s.resolveTrafficEndpoint(c, a, p.To, p.ToNIC, "to", &checks)
	}
	if err == nil {
		err = checks.Err()
	}
	if err != nil {
		return connectivity.PassAnswer{}, err
	}
	return s.Control.CheckConnection(c.Request().Context(), a, q)
}

// resolveTrafficEndpoint resolves one endpoint of the traffic test: text is an address, or the name or id of a VM. nic
// selects a NIC of the VM by its MAC or IP address. Errors are added to checks, at fields below at.
func (s *Site) resolveTrafficEndpoint(c echo.Context, a fleet.Actor, text, nic, at string, checks *fleet.Checks) (e connectivity.ConnectionEnd, err error) {
	if _, err := netip.ParseAddr(text); err == nil || text == "" {
		return connectivity.ConnectionEnd{Address: text}, nil
	}
	if _, err := netip.ParseAddr(nic); err == nil {
		e.Address = nic
	} else {
		e.MAC = nic
	}
	if fleet.IsID(text) {
		e.VMID = fleet.VMID(text)
		return e, nil
	}
	found, err := s.Control.ListVMs(c.Request().Context(), a, fleet.Query{Filter: "name:" + strconv.Quote(text), Limit: 3})
	if fleet.CodeOf(err) == fleet.Invalid {
		checks.Add(at+".vmId", "There is no such VM.")
		return e, nil
	}
	if err != nil {
		return e, err
	}
	for _, vm := range found.Items {
		switch {
		case vm.Name != text:
		case e.VMID != "":
			checks.Add(at+".vmId", "Several VMs have this name. Give the UUID of one of them.")
		default:
			e.VMID = vm.ID
		}
	}
	if e.VMID == "" {
		checks.Add(at+".vmId", "There is no such VM. Give the name of a VM, or an address.")
	}
	return e, nil
}
