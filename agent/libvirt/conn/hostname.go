package conn

import "os"

// Hostname returns the host's name for messages to people.
func Hostname() string {
	name, err := os.Hostname()
	if err != nil {
		return "this host"
	}
	return name
}
