------------------------------- MODULE Pages -------------------------------
(***************************************************************************)
(* What cuts name, and what a sweep leaves of it. The rules are in         *)
(* docs/PROTOCOL.md, Pages; their numbers are beside the actions here. One *)
(* owner is enough: who that is, Cuts.tla has.                             *)
(*                                                                         *)
(* The segment of an epoch has a frame of each store, a delta or a base.   *)
(* So the chain of a store is the epochs from that of its last base on.    *)
(***************************************************************************)
EXTENDS Integers, FiniteSets, TLC

CONSTANTS
  Stores,  \* each has a page of its own
  Last,    \* the last epoch
  Keep,    \* so many cuts are kept beside the last
  Margin,  \* for so many epochs before the oldest kept cut nothing is deleted, 20 in Scala
  Pins,    \* how many savepoints there may be
  Broken   \* the one rule that nobody follows, or "none"

Follows(rule) == Broken # rule

Epochs == 0..Last
NoPage == -1

VARIABLES
  next,     \* the epoch that is committed next
  bases,    \* of each store, the epochs whose frame of it is a base
  cuts,     \* the cuts that are there, by epoch
  pins,     \* the savepoints
  segments, \* the epochs whose segment is there
  pages,    \* the pages that are there
  writing,  \* pages whose write is under way
  ready,    \* of each store, the epoch of the last page of which the owner knows that it is there
  doomed    \* what a sweep is about to delete: segments and pages

vars == <<next, bases, cuts, pins, segments, pages, writing, ready, doomed>>

Maximum(numbers) == CHOOSE n \in numbers : \A m \in numbers : m <= n
Minimum(numbers) == CHOOSE n \in numbers : \A m \in numbers : n <= m

Nothing == [segments |-> {}, pages |-> {}]

Init ==
  /\ next = 0
  /\ bases = [s \in Stores |-> {}]
  /\ cuts = {}
  /\ pins = {}
  /\ segments = {}
  /\ pages = {}
  /\ writing = {}
  /\ ready = [s \in Stores |-> NoPage]
  /\ doomed = Nothing

Chain(s, e) == Maximum({b \in bases[s] : b <= e})..e

Named(cut) == {[store |-> s, epoch |-> cut.pages[s]] : s \in {t \in Stores : cut.pages[t] # NoPage}}

LastCut == CHOOSE c \in cuts : \A d \in cuts : d.epoch <= c.epoch

-----------------------------------------------------------------------------

(* P1: which page of a store the next cut names. P13: one that is too old has come too late. *)
Usable(s) ==
  LET known == ready[s]
      under == {p.epoch : p \in {q \in writing : q.store = s}}
      before == IF cuts # {} THEN LastCut.pages[s] ELSE NoPage
  IN IF ~Follows("PageBeforeRoot") /\ under # {} THEN Maximum(under)
     ELSE IF known # before /\ known < next - 1 - Margin /\ Follows("PageInTime") THEN before
     ELSE known

(* P2: the window has the epochs after the oldest page. *)
Window(of) ==
  LET some == {of[s] : s \in Stores}
      after == IF Follows("WholeWindow") THEN Minimum(some) ELSE Maximum(some)
  IN (after + 1)..next

Commit ==
  /\ next <= Last
  /\ \E written \in SUBSET Stores :
       LET of == [s \in Stores |-> Usable(s)]
       IN /\ IF next = 0 THEN written = Stores ELSE Cardinality(written) < 2
          /\ bases' = [s \in Stores |-> IF s \in written THEN bases[s] \cup {next} ELSE bases[s]]
          /\ segments' = segments \cup {next}
          /\ cuts' = cuts \cup {[epoch |-> next, pages |-> of, window |-> Window(of)]}
  /\ next' = next + 1
  /\ UNCHANGED <<pins, pages, writing, ready, doomed>>

(* P4: the owner writes pages after a cut, as long as that may take. *)
Begin ==
  /\ cuts # {}
  /\ \E s \in Stores :
       /\ ready[s] < LastCut.epoch
       /\ \A p \in writing : p.store # s
       /\ writing' = writing \cup {[store |-> s, epoch |-> LastCut.epoch]}
  /\ UNCHANGED <<next, bases, cuts, pins, segments, pages, ready, doomed>>

Land ==
  /\ \E p \in writing :
       /\ writing' = writing \ {p}
       /\ pages' = pages \cup {p}
       /\ ready' = [ready EXCEPT ![p.store] = p.epoch]
  /\ UNCHANGED <<next, bases, cuts, pins, segments, doomed>>

(* P4: another owner begins, and knows the pages that the last cut names. *)
Restart ==
  /\ cuts # {}
  /\ writing # {} \/ ready # LastCut.pages
  /\ ready' = LastCut.pages
  /\ writing' = {}
  /\ UNCHANGED <<next, bases, cuts, pins, segments, pages, doomed>>

(* K5 *)
Pin ==
  /\ Cardinality(pins) < Pins
  /\ \E c \in cuts : pins' = pins \cup {c}
  /\ UNCHANGED <<next, bases, cuts, segments, pages, writing, ready, doomed>>

(* What a cut names by its pages and its window. *)
SegmentsOf(c) ==
  LET ofPages == IF Follows("SweepByPages") THEN {s \in Stores : c.pages[s] # NoPage} ELSE {}
  IN c.window \cup UNION {Chain(s, c.pages[s]) : s \in ofPages}

(* K1, P11, P12: the cuts that are not kept go, and then what the oldest and savepoints do not name. *)
Sweep ==
  /\ cuts # {}
  /\ doomed = Nothing
  /\ LET kept == {c \in cuts : c.epoch >= LastCut.epoch - Keep}
         oldest == CHOOSE c \in kept : \A d \in kept : c.epoch <= d.epoch
         roots == {oldest} \cup pins
         old == 0..(oldest.epoch - Margin - 1)
     IN /\ cuts' = kept
        /\ doomed' =
             [segments |-> (old \cap segments) \ UNION {SegmentsOf(c) : c \in roots},
              pages |-> {p \in pages : p.epoch \in old /\
                           (Follows("KeepPages") => p \notin UNION {Named(c) : c \in roots})}]
  /\ UNCHANGED <<next, bases, pins, segments, pages, writing, ready>>

Delete ==
  /\ doomed # Nothing
  /\ segments' = segments \ doomed.segments
  /\ pages' = pages \ doomed.pages
  /\ doomed' = Nothing
  /\ UNCHANGED <<next, bases, cuts, pins, writing, ready>>

Spec == Init /\ [][Commit \/ Begin \/ Land \/ Restart \/ Pin \/ Sweep \/ Delete]_vars

Symmetry == Permutations(Stores)

-----------------------------------------------------------------------------

(* Pages and window have the chain of each store. *)
Covers(c) ==
  \A s \in Stores :
    LET page == IF c.pages[s] = NoPage THEN {} ELSE Chain(s, c.pages[s])
    IN Chain(s, c.epoch) \subseteq page \cup c.window

WholeChains == \A c \in cuts \cup pins : Covers(c)

(* What a cut or a savepoint names is there, as far as a reader needs it. *)
NothingGone ==
  \A c \in cuts \cup pins :
    /\ Named(c) \subseteq pages
    /\ c.window \subseteq segments
    /\ \A s \in Stores : Chain(s, c.epoch) \subseteq segments

(* To be violated, so that the above says something. *)
NeverSwept == \A e \in 0..(next - 1) : e \in segments
NeverPagesSwept == ~(doomed.pages # {})
=============================================================================
