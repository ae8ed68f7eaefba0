package config

import (
	"strings"
	"testing"
)

// Values of VMs leave the machine only with a token, over TLS.
func TestAgentExposesHostOnlySafely(t *testing.T) {
	t.Parallel()
	const token, cert = "metricsToken: /t\n", "metricsCert: /c\nmetricsKey: /k\n"
	for name, c := range map[string]struct {
		yaml    string
		exposes bool
		fails   string
	}{
		"nothing":                    {"", false, ""},
		"loopback":                   {"metricsListen: 127.0.0.1:9180\n", true, ""},
		"loopback of IPv6":           {"metricsListen: '[::1]:9180'\n", true, ""},
		"localhost":                  {"metricsListen: localhost:9180\n", true, ""},
		"all addresses":              {"metricsListen: ':9180'\n", false, ""},
		"an address":                 {"metricsListen: 192.0.2.1:9180\n", false, ""},
		"a name":                     {"metricsListen: host1:9180\n", false, ""},
		"only TLS":                   {"metricsListen: ':9180'\n" + cert, false, ""},
		"token and TLS":              {"metricsListen: ':9180'\n" + token + cert, true, ""},
		"only a token":               {"metricsListen: ':9180'\n" + token, false, "metricsToken"},
		"a token on loopback":        {"metricsListen: 127.0.0.1:9180\n" + token, true, ""},
		"a certificate without key":  {"metricsListen: 127.0.0.1:9180\nmetricsCert: /c\n", false, "metricsCert"},
		"token and TLS, no listener": {token + cert, false, ""},
	} {
		a, err := givenSettings{yaml: "name: h1\n" + c.yaml}.agent(t)
		switch {
		case c.fails != "" && (err == nil || !strings.Contains(err.Error(), c.fails)):
			t.Errorf("%s: %v", name, err)
		case c.fails == "" && (err != nil || a.ExposesHost() != c.exposes):
			t.Errorf("%s: exposes the host: %v, %v", name, a.ExposesHost(), err)
		}
	}
}
