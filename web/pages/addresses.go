package pages

import (
	"strings"

	"github.com/labstack/echo/v4"

	"quantix/internal/fleet"
	"quantix/views"
	"quantix/views/kit"
	networkview "quantix/views/network"
	"quantix/web/form"
)

// readAddressesTab returns the data of a network's Addresses tab.
func (s *Site) readAddressesTab(c echo.Context, a fleet.Actor, id fleet.NetworkID) (networkview.AddressTab, error) {
	host := fleet.HostID(c.QueryParam("host"))
	all, err := s.Control.NetworkAddresses(c.Request().Context(), a, id, host)
	return networkview.NewAddressTab(all, c.QueryParam("find"), host), err
}

type reserveForm struct {
	MAC  string `form:"mac" query:"mac"`
	IP   string `form:"ip" query:"ip"`
	Name string `form:"name" query:"name"`
	NIC  string `form:"card" query:"card"`
	Back string `form:"back"`
}

func addressesTabPath(c echo.Context) string {
	return views.TabPath(views.NetworkPath(fleet.NetworkID(c.Param("id"))), "addresses")
}

// ShowReservationForm shows the reservation form, prefilled from the query.
func (s *Site) ShowReservationForm(c echo.Context, a fleet.Actor, in reserveForm, how form.Display) error {
	ctx := c.Request().Context()
	n, err := s.Control.NetworkBrief(ctx, a, fleet.NetworkID(c.Param("id")))
	if err != nil {
		return err
	}
	if !how.WasRefused() {
		in = reserveForm{MAC: c.QueryParam("mac"), IP: c.QueryParam("ip"), Name: c.QueryParam("name"), NIC: c.QueryParam("card")}
	}
	known, err := s.Control.NetworkAddresses(ctx, a, n.ID, "")
	if err != nil {
		return err
	}
	p := networkview.ReserveAddressPage{
		Network: n, In: networkview.ReserveAddressForm{MAC: in.MAC, IP: in.IP, Name: in.Name}, NIC: in.NIC, Next: known.Next, Back: addressesTabPath(c), Errors: how.Errors,
	}
	return s.ShowPageWithStatus(c, how.Status, a, networkPageLayout(n), networkview.ReserveAddressDialog(p))
}

func (s *Site) ReserveAddress(c echo.Context, a fleet.Actor, in reserveForm) (form.Response, error) {
	lease, tasks, err := s.Control.ReserveAddress(c.Request().Context(), a, fleet.NetworkID(c.Param("id")), fleet.StaticLease{MAC: in.MAC, IP: in.IP, Name: in.Name})
	return form.StayOnPage(addressesTabPath(c), lease.IP+" is reserved for "+lease.MAC+queuedOnHostsText(len(tasks))), err
}

func (s *Site) FreeAddress(c echo.Context, a fleet.Actor, _ form.EmptyForm) (form.Response, error) {
	mac := strings.ToLower(c.Param("mac"))
	tasks, err := s.Control.FreeAddress(c.Request().Context(), a, fleet.NetworkID(c.Param("id")), mac)
	return form.StayOnPage(addressesTabPath(c), "The reservation for "+mac+" is removed"+queuedOnHostsText(len(tasks))), err
}

// queuedOnHostsText returns the end of a sentence: on how many hosts a task was queued, or only a full stop if on none.
func queuedOnHostsText(hosts int) string {
	if hosts == 0 {
		return "."
	}
	return ": queued on " + kit.CountText(hosts, "host") + "."
}
