package config

import (
	"errors"
	"fmt"
	"net"
	"net/mail"
	"net/netip"
	"net/url"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"quantix/internal/fleet"
)

// macPrefixForm matches three to five bytes. The first byte is even, because unicast addresses have an even first byte.
var macPrefixForm = regexp.MustCompile(`^[0-9a-f][02468ace](:[0-9a-f]{2}){2,4}$`)

// checker collects errors. Each error names the setting in the spelling that the user chose.
type checker struct {
	from settingOrigins
	errs []error
}

func (c *checker) fail(key, format string, args ...any) {
	c.errs = append(c.errs, fmt.Errorf("%s: %s", c.from.nameOf(key), fmt.Sprintf(format, args...)))
}

func checkPortal(p *Portal, from settingOrigins) error {
	c := &checker{from: from}
	c.checkAddress("listen", p.Listen)
	c.checkAddress("agentListen", p.AgentListen)
	if p.Listen == p.AgentListen && !strings.HasSuffix(p.Listen, ":0") {
		c.fail("agentListen", "%q is also the address of listen; give agents another address", p.AgentListen)
	}
	c.requireValue("dataDir", p.DataDir)
	c.checkWebURL("publicUrl", p.PublicURL, "https", "http")
	c.checkWebURL("agentUrl", p.AgentURL, "https")
	c.checkWebURL("pairUrl", p.PairURL, "https")
	c.parseNetworks("trustedProxies", p.TrustedProxies)
	c.parseNetworks("notifyTo", p.NotifyTo)
	c.parseNetworks("bmcTo", p.BMCTo)
	c.checkMail(p.Mail)
	p.MACPrefix = strings.ReplaceAll(strings.ToLower(p.MACPrefix), "-", ":")
	if !macPrefixForm.MatchString(p.MACPrefix) {
		c.fail("macPrefix", "%q is not a prefix of unicast MAC addresses; write three to five bytes such as 52:54:00", p.MACPrefix)
	}
	if p.AuditMonths < 12 || p.AuditMonths > 1200 {
		c.fail("auditMonths", "%d is out of range; choose 12 to 1200", p.AuditMonths)
	}
	// The lower limits leave the roll-up into the next coarser points a day to catch up.
	for _, m := range []struct {
		key              string
		value, low, high int
	}{
		{"metrics.sampleHours", p.Metrics.SampleHours, 2, 48},
		{"metrics.minuteDays", p.Metrics.MinuteDays, 2, 31},
		{"metrics.tenMinuteDays", p.Metrics.TenMinuteDays, 35, 400},
		{"metrics.twoHourDays", p.Metrics.TwoHourDays, max(62, p.Metrics.TenMinuteDays), 3660},
	} {
		if m.value < m.low || m.value > m.high {
			c.fail(m.key, "%d is out of range; choose %d to %d", m.value, m.low, m.high)
		}
	}
	if p.RelayRate < 0 || p.RelayRate > 100_000 {
		c.fail("relayRate", "%d is out of range; choose 0 (no limit) to 100000", p.RelayRate)
	}
	if p.ConnsPerAddress < 0 || p.ConnsPerAddress > 1_000_000 {
		c.fail("connsPerAddress", "%d is out of range; choose 0 (no limit) to 1000000", p.ConnsPerAddress)
	}
	c.checkDatabaseURL("database.url", p.Database.URL)
	if p.Database.MaxConns < 2 || p.Database.MaxConns > 10_000 {
		c.fail("database.maxConns", "%d is out of range; choose 2 to 10000", p.Database.MaxConns)
	}
	switch {
	case p.TLS.Cert != "" && p.TLS.Key == "":
		c.fail("tls.cert", "a certificate needs its key; set tls.key too")
	case p.TLS.Cert == "" && p.TLS.Key != "":
		c.fail("tls.key", "a key needs its certificate; set tls.cert too")
	}
	c.checkLog(p.Log)
	return errors.Join(c.errs...)
}

// parseNetworks replaces networks by their usual form.
func (c *checker) parseNetworks(key string, networks []string) {
	for i, network := range networks {
		prefix, ok := parseNetwork(network)
		if !ok {
			c.fail(key, "%q is not a network; write a network such as 10.0.0.0/8 or 192.0.2.7", network)
			continue
		}
		networks[i] = prefix.String()
	}
}

func (c *checker) checkMail(m Mail) {
	if m.Server == "" {
		return
	}
	c.checkAddress("mail.server", m.Server)
	c.checkOneOf("mail.tls", m.TLS, "starttls", "tls", "none")
	if a, err := mail.ParseAddress(m.From); err != nil || a.Address != m.From {
		c.fail("mail.from", "%q is not an e-mail address; write one such as quantix@example.org", m.From)
	}
	switch {
	case m.User != "" && m.PasswordFile == "":
		c.fail("mail.user", "a user needs a password; set mail.passwordFile too")
	case m.User == "" && m.PasswordFile != "":
		c.fail("mail.passwordFile", "a password needs its user; set mail.user too")
	case m.User != "" && m.TLS == "none":
		c.fail("mail.tls", "a password is not sent without encryption; use starttls or tls, or remove mail.user")
	}
}

func checkAgent(a *Agent, from settingOrigins) error {
	c := &checker{from: from}
	c.checkWebURL("portal", a.Portal, "https")
	c.requireValue("name", a.Name)
	c.requireValue("dataDir", a.DataDir)
	c.checkOneOf("hypervisor", a.Hypervisor, "libvirt", "mock")
	if a.Hypervisor == "libvirt" && !filepath.IsAbs(a.Libvirt.Socket) {
		c.fail("libvirt.socket", "%q is not an absolute path; the default is /run/libvirt/libvirt-sock", a.Libvirt.Socket)
	}
	for _, root := range a.PoolRoots {
		if !filepath.IsAbs(root) || filepath.Clean(root) == "/" {
			c.fail("poolRoots", "%q is not a directory for pools; write absolute paths such as /srv, not /", root)
		}
	}
	for _, device := range a.PoolDevices {
		if _, err := path.Match(device, ""); err != nil || !strings.HasPrefix(device, "/dev/") || path.Clean(device) != device {
			c.fail("poolDevices", "%q names no block devices; write paths such as /dev/disk/by-id/wwn-*", device)
		}
	}
	if a.DiagnosticsDir != "" && !filepath.IsAbs(a.DiagnosticsDir) {
		c.fail("diagnosticsDir", "%q is not an absolute path; write a directory such as /etc/quantix/diagnostics.d", a.DiagnosticsDir)
	}
	c.parseNetworks("fetchFrom", a.FetchFrom)
	if _, _, ok := TransferPorts(a.TransferPorts); !ok {
		c.fail("transferPorts", "%q names no ports; write 49200-49231, one number, \"none\", or nothing", a.TransferPorts)
	}
	if a.NetworkConfirm < 3 || a.NetworkConfirm > 90 { // the job network.apply itself has a limit of 2 minutes, see fleet.NetworkApply
		c.fail("networkConfirm", "%d is out of range; choose 3 to 90", a.NetworkConfirm)
	}
	if a.FetchMost < 1 || a.FetchMost > 65536 {
		c.fail("fetchMost", "%d is out of range; choose 1 to 65536", a.FetchMost)
	}
	if i := a.ReportInterval; i != 0 && (i < fleet.MinReportInterval || i > fleet.MaxReportInterval) {
		c.fail("reportInterval", "%d is out of range; choose %d to %d, or 0 for the portal's", i, fleet.MinReportInterval, fleet.MaxReportInterval)
	}
	a.Labels = c.parseLabels("labels", a.LabelList)
	if a.MetricsListen != "" {
		c.checkAddress("metricsListen", a.MetricsListen)
	}
	if (a.MetricsCert == "") != (a.MetricsKey == "") {
		c.fail("metricsCert", "metricsCert and metricsKey belong together; set both or neither")
	}
	if a.MetricsToken != "" && a.MetricsCert == "" && a.MetricsListen != "" && !isLoopback(a.MetricsListen) {
		c.fail("metricsToken", "the token would cross the network unencrypted; set metricsCert and metricsKey, or listen on 127.0.0.1")
	}
	c.checkLog(a.Log)
	return errors.Join(c.errs...)
}

// parseLabels returns the labels of a list of "key=value", by key. A label without "=" has an empty value.
func (c *checker) parseLabels(key string, list []string) map[string]string {
	labels := make(map[string]string, len(list))
	for _, item := range list {
		name, value, _ := strings.Cut(item, "=")
		name = strings.TrimSpace(name)
		if _, twice := labels[name]; twice {
			c.fail(key, "the label %q is set twice; remove one", name)
		}
		labels[name] = strings.TrimSpace(value)
	}
	var checks fleet.Checks
	fleet.CheckLabels(&checks, key, labels)
	if err := checks.Err(); err != nil {
		c.fail(key, "%v", err)
	}
	return labels
}

func (c *checker) checkLog(l Log) {
	c.checkOneOf("log.level", l.Level, "debug", "info", "warn", "error")
	c.checkOneOf("log.format", l.Format, "text", "json")
}

func (c *checker) checkOneOf(key, value string, allowed ...string) {
	if !slices.Contains(allowed, value) {
		c.fail(key, "%q is not known; choose one of %s", value, strings.Join(allowed, ", "))
	}
}

func (c *checker) requireValue(key, value string) {
	if strings.TrimSpace(value) == "" {
		c.fail(key, "it must not be empty")
	}
}

func (c *checker) checkAddress(key, value string) {
	host, port, err := net.SplitHostPort(value)
	if err == nil {
		_, err = strconv.ParseUint(port, 10, 16)
	}
	if err != nil || strings.ContainsAny(host, " /") {
		c.fail(key, "%q is not an address; write host:port, such as 127.0.0.1:8443, [::1]:8443 or :8443", value)
	}
}

// checkWebURL checks a URL without a path, because Quantix is served at the root.
func (c *checker) checkWebURL(key, value string, schemes ...string) {
	if value == "" {
		return
	}
	u, err := url.Parse(value)
	if err != nil || u.Hostname() == "" || u.User != nil || !slices.Contains(schemes, u.Scheme) ||
		(u.Path != "" && u.Path != "/") || u.RawQuery != "" || u.Fragment != "" {
		// The value may contain a password by mistake, so the error does not repeat it.
		c.fail(key, "this URL cannot be used here; write %s://host or %s://host:port", schemes[0], schemes[0])
	}
}

// checkDatabaseURL checks a database URL. Its errors contain neither the value nor the error of net/url, which quotes
// the value.
func (c *checker) checkDatabaseURL(key, value string) {
	if value == "" {
		return
	}
	u, err := url.Parse(value)
	if err != nil || (u.Scheme != "postgres" && u.Scheme != "postgresql") {
		c.fail(key, "this is not the URL of a PostgreSQL; write postgres://user:password@host:5432/database "+
			"(a password's special characters as %%40 for @, %%2F for /)")
	}
}

func parseNetwork(text string) (netip.Prefix, bool) {
	if prefix, err := netip.ParsePrefix(text); err == nil {
		return prefix.Masked(), true
	}
	if address, err := netip.ParseAddr(text); err == nil && address.Zone() == "" {
		return netip.PrefixFrom(address, address.BitLen()), true
	}
	return netip.Prefix{}, false
}
