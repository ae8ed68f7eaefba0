// Package redfish reads and switches the power of hosts through their BMCs with Redfish. It trusts no answer: each call ends
// within 30 s, its answers are bounded, it follows no redirect and no link to another machine, and it sends credentials only
// to the certificate that the spec trusts.
package redfish

import (
	"context"
	"encoding/base64"
	"fmt"
	"net/http"
	"path"
	"slices"
	"strings"

	"github.com/stmcginnis/gofish"
	"github.com/stmcginnis/gofish/common"
	sdk "github.com/stmcginnis/gofish/redfish"

	"quantix/internal/bmc"
)

const (
	systemsPath = "/redfish/v1/Systems"
	maxSystems  = 32 // of one BMC, such as that of a chassis with blades
	maxNamed    = 8  // systems that an error names
)

// Target is a BMC with its credentials.
type Target struct {
	bmc.Spec
	Password string
}

// connection is one signed-in connection to a BMC.
type connection struct {
	*gofish.APIClient
	via     *transport
	secrets []string    // that no text of the BMC may repeat
	late    func() bool // the time of the connection is over
}

// clean returns a text of the BMC for pages, without the credentials if the BMC repeats them.
func (c *connection) clean(text string) string {
	for _, s := range c.secrets {
		text = strings.ReplaceAll(text, s, "…")
	}
	return bmc.CleanText(text)
}

// use connects and calls do. An error is an *Error.
func (c *Connector) use(ctx context.Context, t Target, do func(*connection) error) (err error) {
	at, why := t.URL()
	if why != "" {
		return errorf("%s", why)
	}
	verified, err := tlsConfig(t.Spec, at.Hostname())
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, c.limit)
	defer cancel()
	base := &http.Transport{
		Proxy: nil, DialContext: c.dial, TLSClientConfig: verified, TLSHandshakeTimeout: dialTimeout, DisableCompression: true, MaxResponseHeaderBytes: maxHeaderBytes,
	}
	defer base.CloseIdleConnections()
	to := &connection{via: &transport{base: base, host: at.Host}, late: func() bool { return ctx.Err() != nil }, secrets: []string{t.Password, base64.StdEncoding.EncodeToString([]byte(t.User + ":" + t.Password))}}
	defer func() {
		if v := recover(); v != nil { // a library must not end the portal because of a BMC's answer
			err = panicError(v)
		}
		if err != nil {
			err = to.describe(err)
		}
	}()
	to.APIClient, err = gofish.ConnectContext(ctx, gofish.ClientConfig{
		Endpoint: "https://" + at.Host, Username: t.User, Password: t.Password, BasicAuth: true,
		HTTPClient: &http.Client{Transport: to.via, CheckRedirect: refuseRedirect},
	})
	if err != nil {
		return err
	}
	return do(to)
}

// system returns the host's system: the one with the ID, or the only one if the ID is empty.
func (c *connection) system(id string) (*sdk.ComputerSystem, error) {
	all, err := common.GetCollection(c.APIClient, systemsPath)
	if err != nil {
		return nil, err
	}
	links := all.ItemLinks
	if len(links) > maxSystems {
		return nil, errorf("The BMC %s has more than %d systems.", c.via.host, maxSystems)
	}
	var ids []string
	for _, l := range links {
		ids = append(ids, path.Base(l))
	}
	i := slices.Index(ids, id)
	switch {
	case len(links) == 0:
		return nil, errorf("The BMC %s reports no system.", c.via.host)
	case id == "" && len(links) > 1:
		return nil, errorf("The BMC %s has several systems. Enter the ID of the host's one: %s.", c.via.host, c.nameSome(ids))
	case id == "":
		i = 0
	case i < 0:
		return nil, errorf("The BMC %s has no system %s, but %s.", c.via.host, id, c.nameSome(ids))
	}
	if !strings.HasPrefix(links[i], "/") {
		return nil, errorf("The BMC %s names its system by a link that is not a path.", c.via.host)
	}
	s, err := sdk.GetComputerSystem(c.APIClient, links[i])
	if err == nil && (s == nil || s.PowerState == "" && s.ID == "") {
		err = errorf("The BMC %s answered without a system.", c.via.host)
	}
	return s, err
}

func (c *connection) nameSome(ids []string) string {
	more := ""
	if len(ids) > maxNamed {
		ids, more = ids[:maxNamed], ", …"
	}
	return c.clean(strings.Join(ids, ", ") + more)
}

func (c *connection) reading(s *sdk.ComputerSystem) bmc.Reading {
	r := bmc.Reading{
		Maker: c.clean(s.Manufacturer), Model: c.clean(s.Model), Health: c.clean(string(s.Status.Health)), SystemID: c.clean(s.ID), UUID: c.clean(s.UUID),
	}
	switch p := bmc.Power(s.PowerState); p {
	case bmc.On, bmc.Off, bmc.PoweringOn, bmc.PoweringOff:
		r.Power = p
	}
	return r
}

// Read returns what the BMC reports.
func (c *Connector) Read(ctx context.Context, t Target) (r bmc.Reading, err error) {
	err = c.use(ctx, t, func(to *connection) error {
		s, err := to.system(t.SystemID)
		if err == nil {
			r = to.reading(s)
		}
		return err
	})
	return r, err
}

// resetTypes are Redfish's words for the commands, the preferred one first.
var resetTypes = map[bmc.Command][]sdk.ResetType{
	bmc.PowerOn:  {sdk.OnResetType, sdk.ForceOnResetType},
	bmc.PowerOff: {sdk.ForceOffResetType},
	bmc.Reset:    {sdk.ForceRestartResetType, sdk.PowerCycleResetType},
}

// Send sends the command once, unless the host already has the wanted power state: then unchanged is set. A nil error
// means that the BMC accepted the command, but may execute it later. If an Error is InDoubt, the BMC may execute it.
func (c *Connector) Send(ctx context.Context, t Target, command bmc.Command) (unchanged bool, err error) {
	err = c.use(ctx, t, func(to *connection) error {
		s, err := to.system(t.SystemID)
		if err != nil {
			return err
		}
		now := to.reading(s).Power
		switch {
		case command == bmc.Reset && now == bmc.Off:
			return errorf("The BMC reports that the host is off, so it cannot be reset. Use Power on.")
		case command != bmc.Reset && now == command.Wanted():
			unchanged = true
			return nil
		}
		word, err := chooseResetType(command, s.SupportedResetTypes)
		if err != nil {
			return err
		}
		return to.post(s.Reset(word))
	})
	return unchanged, err
}

// post returns the error of a sent command. An answer with a client error means that the BMC did not execute it.
func (c *connection) post(err error) error {
	if err == nil {
		return nil
	}
	e := *c.describe(err)
	answered, ok := err.(*common.Error) //nolint:errorlint // gofish returns it unwrapped; the connection's errors are others
	refused := ok && answered.HTTPReturnedStatusCode >= 400 && answered.HTTPReturnedStatusCode < 500 && answered.HTTPReturnedStatusCode != http.StatusRequestTimeout
	e.InDoubt = c.via.sent.Load() && !refused
	return &e
}

func chooseResetType(command bmc.Command, supported []sdk.ResetType) (sdk.ResetType, error) {
	words := resetTypes[command]
	if len(words) == 0 {
		return "", fmt.Errorf("there is no command %q", command)
	}
	if len(supported) == 0 {
		return words[0], nil
	}
	for _, w := range words {
		if slices.Contains(supported, w) {
			return w, nil
		}
	}
	return "", errorf("The BMC does not support %s.", words[0])
}
