// Package archtest holds the rules of ARCHITECTURE.md as tests, and small rules of style that a reader would
// otherwise have to check by hand. Each rule is a function from a source tree to its violations; each is also run on
// small wrong trees, so that a rule which catches nothing fails.
package archtest
