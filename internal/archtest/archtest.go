// Package archtest checks which package may import which, and the form of the decision records; its tests are the whole of it.
package archtest
