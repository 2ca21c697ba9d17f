-------------------------------- MODULE Cuts --------------------------------
(***************************************************************************)
(* How the runs of one query agree on its epochs: by the owner, the entry  *)
(* of the offset log, the seal or claim, and the cut. The rules are in     *)
(* docs/PROTOCOL.md; their numbers are beside the actions here.            *)
(*                                                                         *)
(* An action does one request at most, so that a crash may come between    *)
(* any two of them. A run that is frozen is one that takes no step for     *)
(* long, and what it writes late is a step that it takes late.             *)
(***************************************************************************)
EXTENDS Naturals, FiniteSets, TLC

CONSTANTS
  Runs,    \* the starts of the query that there may be, at once or one after the other
  Last,    \* the last epoch
  Sinks,   \* what the sink of a run may be: "plain" shows rows as they come, "skip" does so too
           \* but leaves out an epoch that it has seen, "seal" shows nothing before the seal
  Handovers, \* whether a run may wait for the run before
  Broken   \* the one rule that nobody follows, or "none"

Follows(rule) == Broken # rule

Epochs == 0..Last
Generations == 1..Cardinality(Runs)

Nobody == "nobody"
Absent == "absent"
Whole == "whole"    \* no row stays in flight: what a claim says, and a seal without decisions
Fence == "fence"    \* the entry of an epoch without new input

(* What comes of an epoch: of which input, and who has decided which rows stay in flight. All that *)
(* leave none in flight make the same of the same input.                                           *)
Made(input, decided) == [input |-> input, decided |-> decided]
Nothing == Made(Absent, Whole)

VARIABLES
  run,     \* of each run, what its driver knows
  top,     \* the highest generation that has an owner
  ended,   \* the generations whose runs have said that they have ended
  waiting, \* the generations whose runs wait for the end of the run before
  took,    \* those of them that have taken the query
  entry,   \* of each epoch, who has created its entry of the offset log
  object,  \* of each epoch and generation, the seal or claim: what is decided
  frames,  \* of each epoch, the complete sets of frames that are durable
  shown,   \* of each epoch, all that the sink has ever let be seen
  cut      \* of each epoch, the cuts that were ever created

owners == <<top, ended, waiting, took>>
vars == <<run, owners, entry, object, frames, shown, cut>>

Inactive(at) ==
  [at |-> at, generation |-> 0, sink |-> Nobody, isAlone |-> FALSE, epoch |-> 0,
   isFirst |-> FALSE, input |-> Absent, isEntering |-> FALSE, follows |-> Absent,
   made |-> Nothing, queue |-> "empty", owed |-> Nothing, owedAt |-> 0,
   check |-> "next", handsOver |-> FALSE]

Init ==
  /\ run = [r \in Runs |-> Inactive("idle")]
  /\ top = 0
  /\ ended = {}
  /\ waiting = {}
  /\ took = {}
  /\ entry = [e \in Epochs |-> Absent]
  /\ object = [e \in Epochs |-> [g \in Generations |-> Absent]]
  /\ frames = [e \in Epochs |-> {}]
  /\ shown = [e \in Epochs |-> {}]
  /\ cut = [e \in Epochs |-> {}]

-----------------------------------------------------------------------------

Is(r, at) == run[r].at = at
IsActive(r) == run[r].at \notin {"idle", "over", "stopped"}
Moves(r, to) == run' = [run EXCEPT ![r].at = to]
Ends(r) == run' = [run EXCEPT ![r] = Inactive("over")]

IsFollowed(r) == top > run[r].generation
IsLast(g) == g = top \/ (g + 1 = top /\ top \in waiting)

(* The run ends because of a later owner. One that finds none has been stopped by nobody. *)
Stops(r) == run' = [run EXCEPT ![r] = Inactive(IF IsFollowed(r) THEN "over" ELSE "stopped")]

Maximum(numbers) == CHOOSE n \in numbers : \A m \in numbers : m <= n
Minimum(numbers) == CHOOSE n \in numbers : \A m \in numbers : n <= m

Committed == {e \in Epochs : cut[e] # {}}
CutOf(e) == CHOOSE c \in cut[e] : \A d \in cut[e] : d.generation <= c.generation
Sealers(e) == {g \in Generations : object[e][g] # Absent}

(* S8: of several objects of an epoch that of the highest generation counts. *)
Sealed(e) ==
  IF Sealers(e) = {} THEN Absent
  ELSE LET g == IF Follows("HighestSeal") THEN Maximum(Sealers(e)) ELSE Minimum(Sealers(e))
       IN IF object[e][g] = Whole THEN Absent ELSE object[e][g]

-----------------------------------------------------------------------------
(* The start of a run. *)

(* It lists the owners. *)
Start(r) ==
  /\ Is(r, "idle")
  /\ \E sink \in Sinks :
       run' = [run EXCEPT ![r].at = IF Follows("OwnThenFind") THEN "own" ELSE "find",
                          ![r].generation = top + 1,
                          ![r].isAlone = top = 0 \/ top \in ended,
                          ![r].sink = sink]
  /\ UNCHANGED <<owners, entry, object, frames, shown, cut>>

(* O1: it takes the next generation that is free. T1: it may wait for the run before. *)
Own(r) ==
  /\ Is(r, "own")
  /\ LET wanted == run[r].generation IN
       IF wanted <= top /\ Follows("OwnerIfAbsent")
       THEN /\ run' = [run EXCEPT ![r].generation = wanted + 1, ![r].isAlone = FALSE]
            /\ UNCHANGED owners
       ELSE \E waits \in IF run[r].isAlone \/ ~Follows("OwnThenFind") \/ ~Handovers
                         THEN {FALSE} ELSE BOOLEAN :
              /\ top' = Maximum({top, wanted})
              /\ ended' = IF Follows("EndTruly") THEN ended ELSE ended \cup {wanted}
              /\ waiting' = IF waits THEN waiting \cup {wanted} ELSE waiting
              /\ Moves(r, IF waits THEN "wait"
                          ELSE IF Follows("OwnThenFind") THEN "find" ELSE "look")
              /\ UNCHANGED took
  /\ UNCHANGED <<entry, object, frames, shown, cut>>

(* T3: it waits for the end of the run before, or for as long as it is willing to. *)
Wait(r) ==
  /\ Is(r, "wait")
  /\ \E hasEnded \in {run[r].generation - 1 \in ended, FALSE} :
       run' = [run EXCEPT ![r].isAlone = hasEnded,
                          ![r].at = IF Follows("TookThenFind") THEN "take" ELSE "find"]
  /\ UNCHANGED <<owners, entry, object, frames, shown, cut>>

(* T3: the query is taken, if that has not happened by the owner alone. *)
Take(r) ==
  /\ Is(r, "take")
  /\ took' = IF Follows("Took") THEN took \cup {run[r].generation} ELSE took
  /\ Moves(r, IF Follows("TookThenFind") THEN "find" ELSE "look")
  /\ UNCHANGED <<top, ended, waiting, entry, object, frames, shown, cut>>

(* O2, S8: it finds the latest cut, and the seal of the epoch after that. *)
Find(r) ==
  /\ Is(r, "find")
  /\ LET e == Cardinality(Committed) IN
       IF e > Last THEN Ends(r)
       ELSE run' = [run EXCEPT ![r].at = IF ~Follows("OwnThenFind") THEN "own"
                                        ELSE IF ~Follows("TookThenFind") /\
                                                run[r].generation \in waiting
                                        THEN "take" ELSE "look",
                               ![r].epoch = e,
                               ![r].isFirst = TRUE,
                               ![r].follows = Sealed(e)]
  /\ UNCHANGED <<owners, entry, object, frames, shown, cut>>

(* O3: it looks for the next generation after it has found a cut. *)
Look(r) ==
  /\ Is(r, "look")
  /\ IF IsFollowed(r) /\ Follows("LookAfterFound") THEN Stops(r)
     ELSE Moves(r, IF run[r].isAlone \/ run[r].epoch = 0 THEN "read" ELSE "fence")
  /\ UNCHANGED <<owners, entry, object, frames, shown, cut>>

(* O8: it plans the epoch before it reads the log, where a run before it may yet do so. *)
PutFence(r) ==
  /\ Is(r, "fence")
  /\ LET e == run[r].epoch IN
       entry' = IF entry[e] = Absent /\ Follows("FenceEntry")
                THEN [entry EXCEPT ![e] = Fence] ELSE entry
  /\ Moves(r, "read")
  /\ UNCHANGED <<owners, object, frames, shown, cut>>

(* S9: whether a run says something of its first epoch before a task of that is answered. *)
IsToClaim(r) ==
  /\ run[r].isFirst
  /\ run[r].epoch > 0
  /\ \/ run[r].follows # Absent /\ Follows("CopiedSeal")
     \/ run[r].follows = Absent /\ run[r].sink # "seal" /\ Follows("Claim")

Planned(r) == IF IsToClaim(r) THEN "claim" ELSE "work"

(* What a run knows after a request of an ownership check, which it passes with `passed`. T2: a run *)
(* that finds a waiting one goes on, unless that has taken the query, or another one is later.     *)
Checked(r, passed) ==
  LET g == run[r].generation
      over == Inactive(IF IsFollowed(r) THEN "over" ELSE "stopped")
      next == [passed EXCEPT !.check = "next"]
  IN CASE run[r].check = "next" ->
            IF ~IsFollowed(r) THEN next
            ELSE IF g + 1 \notin waiting THEN over
            ELSE [run[r] EXCEPT !.check = "took", !.handsOver = TRUE]
       [] run[r].check = "took" ->
            IF g + 1 \in took /\ Follows("LookTook") THEN over
            ELSE [run[r] EXCEPT !.check = "later"]
       [] run[r].check = "later" ->
            IF top > g + 1 /\ Follows("LookLater") THEN over ELSE next

(* Spark reads its log of offsets. *)
Read(r) ==
  /\ Is(r, "read")
  /\ LET found == entry[run[r].epoch] IN
       run' = [run EXCEPT ![r].at = IF found = Absent THEN "plan" ELSE Planned(r),
                          ![r].input = found]
  /\ UNCHANGED <<owners, entry, object, frames, shown, cut>>

-----------------------------------------------------------------------------
(* An epoch. *)

(* O15: the entry of an epoch may be written while the epoch runs, if the sink seals it. *)
MayEnterLater(r) == run[r].sink = "seal" /\ ~run[r].isFirst

(* O5: it plans the epoch, or stops where another run has. O13: before the first cut that may be. *)
Plan(r) ==
  /\ Is(r, "plan")
  /\ LET e == run[r].epoch IN
       IF MayEnterLater(r)
       THEN /\ run' = [run EXCEPT ![r].at = Planned(r), ![r].input = r, ![r].isEntering = TRUE]
            /\ UNCHANGED entry
       ELSE IF entry[e] # Absent /\ Follows("EntryIfAbsent")
       THEN /\ IF e = 0 THEN Ends(r) ELSE Stops(r)
            /\ UNCHANGED entry
       ELSE /\ entry' = [entry EXCEPT ![e] = r]
            /\ run' = [run EXCEPT ![r].at = Planned(r), ![r].input = r]
  /\ UNCHANGED <<owners, object, frames, shown, cut>>

(* O15, Q1: another thread writes the entry, after the cut before it and the check after that. *)
Enter(r) ==
  /\ run[r].isEntering
  /\ run[r].queue = "empty" \/ ~Follows("EntryAfterCut")
  /\ LET e == run[r].epoch IN
       IF entry[e] # Absent /\ Follows("EntryIfAbsent")
       THEN /\ IF IsActive(r) THEN Stops(r) ELSE Ends(r)
            /\ UNCHANGED entry
       ELSE /\ entry' = [entry EXCEPT ![e] = r]
            /\ IF IsActive(r) THEN run' = [run EXCEPT ![r].isEntering = FALSE] ELSE Ends(r)
  /\ UNCHANGED <<owners, object, frames, shown, cut>>

(* S9: the claim, or the copy of the seal that it follows. *)
Claim(r) ==
  /\ Is(r, "claim")
  /\ LET e == run[r].epoch
         g == run[r].generation
         what == IF run[r].follows = Absent THEN Whole ELSE run[r].follows
     IN IF object[e][g] # Absent
        THEN Stops(r) /\ UNCHANGED object
        ELSE /\ object' = [object EXCEPT ![e][g] = what]
             /\ Moves(r, IF Follows("LookAfterClaim") THEN "look after claim" ELSE "work")
  /\ UNCHANGED <<owners, entry, frames, shown, cut>>

(* S10 *)
LookAfterClaim(r) ==
  /\ Is(r, "look after claim")
  /\ IF IsFollowed(r) THEN Stops(r) ELSE Moves(r, "work")
  /\ UNCHANGED <<owners, entry, object, frames, shown, cut>>

(* I2: rows may stay in flight where the sink seals, but not in the first epoch of a run. *)
Decisions(r) ==
  IF run[r].follows # Absent THEN {run[r].follows}
  ELSE IF run[r].sink = "seal" /\ (~run[r].isFirst \/ ~Follows("FirstWhole")) THEN {Whole, r}
  ELSE {Whole}

(* S6, S11: whether the seal is an object. *)
IsSealAnObject(r, decided) ==
  /\ run[r].sink = "seal"
  /\ run[r].follows = Absent
  /\ \/ decided # Whole /\ Follows("SealIsAnObject")
     \/ run[r].isFirst /\ run[r].epoch > 0 /\ Follows("FirstSeal")

(* C2: the frames of the latest run that is complete, or else (C3) its tasks. *)
Collected(r) ==
  LET others == {f \in frames[run[r].epoch] : f.generation # run[r].generation}
      of == {f.generation : f \in others}
      taken == IF Follows("LatestFrames") THEN Maximum(of) ELSE Minimum(of)
  IN IF run[r].follows # Absent THEN Made(run[r].input, run[r].follows)
     ELSE IF others = {} THEN Made(run[r].input, Whole)
     ELSE (CHOOSE f \in others : f.generation = taken).made

(* W2: its tasks run, and their frames are durable when all are done. *)
Work(r) ==
  /\ Is(r, "work")
  /\ ~run[r].isEntering \/ ~Follows("EntryBeforeTasks")
  /\ LET e == run[r].epoch IN
       IF run[r].sink = "skip" /\ shown[e] # {}
       THEN /\ run' = [run EXCEPT ![r].at = "cut", ![r].made = Collected(r)]
            /\ UNCHANGED frames
       ELSE \E decided \in Decisions(r) :
              LET made == Made(run[r].input, decided)
                  isSealedFirst == IsSealAnObject(r, decided) /\ Follows("SealThenShow")
              IN /\ run' = [run EXCEPT ![r].at = IF isSealedFirst THEN "seal" ELSE "show",
                                       ![r].made = made]
                 /\ frames' = IF "skip" \notin Sinks THEN frames
                              ELSE [frames EXCEPT ![e] = @ \cup
                                     {[generation |-> run[r].generation, made |-> made]}]
  /\ UNCHANGED <<owners, entry, object, shown, cut>>

(* S6, S11 *)
Seal(r) ==
  /\ Is(r, "seal")
  /\ LET e == run[r].epoch
         g == run[r].generation
     IN IF object[e][g] # Absent
        THEN Stops(r) /\ UNCHANGED object
        ELSE /\ object' = [object EXCEPT ![e][g] = run[r].made.decided]
             /\ Moves(r, IF Follows("LookAfterSeal") THEN "look after seal" ELSE "show")
  /\ UNCHANGED <<owners, entry, frames, shown, cut>>

(* S7 *)
LookAfterSeal(r) ==
  /\ Is(r, "look after seal")
  /\ run' = [run EXCEPT ![r] =
       Checked(r, [@ EXCEPT !.at = IF Follows("SealThenShow") THEN "show" ELSE "cut"])]
  /\ UNCHANGED <<owners, entry, object, frames, shown, cut>>

(* The sink lets the epoch be seen. Where the same was seen before, it replaces that. *)
Show(r) ==
  /\ Is(r, "show")
  /\ shown' = [shown EXCEPT ![run[r].epoch] = @ \cup {run[r].made}]
  /\ Moves(r, IF IsSealAnObject(r, run[r].made.decided) /\ ~Follows("SealThenShow")
              THEN "seal" ELSE "cut")
  /\ UNCHANGED <<owners, entry, object, frames, cut>>

(* C5: the cut is created if absent. O10: one of an earlier generation is as good. C6: one of a *)
(* later generation stops the run.                                                              *)
Commit(r) ==
  /\ Is(r, "cut")
  /\ run[r].queue = "empty"
  /\ LET e == run[r].epoch
         own == [generation |-> run[r].generation, made |-> run[r].made]
         isTaken == cut[e] # {} /\ Follows("CutIfAbsent")
         isAsGood == IF CutOf(e).generation < own.generation THEN Follows("AdoptEarlier")
                     ELSE ~Follows("StopAtLater")
     IN IF isTaken
        THEN /\ IF isAsGood THEN Moves(r, "look after cut") ELSE Stops(r)
             /\ UNCHANGED cut
        ELSE /\ cut' = [cut EXCEPT ![e] = @ \cup {own}]
             /\ Moves(r, "look after cut")
  /\ UNCHANGED <<owners, entry, object, frames, shown>>

(* Q1, Q2: another thread writes the cut, if the run has sealed the epoch, which is not its first. *)
MayCommitLater(r) ==
  /\ run[r].sink = "seal"
  /\ ~run[r].isFirst

CommitLater(r) ==
  /\ Is(r, "cut")
  /\ MayCommitLater(r)
  /\ run[r].queue = "empty"
  /\ LET e == run[r].epoch
         isLast == e = Last
     IN run' = [run EXCEPT ![r].at = IF isLast THEN "idle at end" ELSE "plan",
                           ![r].epoch = IF isLast THEN e ELSE e + 1,
                           ![r].input = IF isLast THEN @ ELSE Absent,
                           ![r].isEntering = FALSE,
                           ![r].made = Nothing,
                           ![r].queue = "cut",
                           ![r].owed = run[r].made,
                           ![r].owedAt = e]
  /\ UNCHANGED <<owners, entry, object, frames, shown, cut>>

(* T2: a run that hands over plans no epoch after this one. *)
HandingOver(after) ==
  IF after.handsOver
  THEN [after EXCEPT !.at = "hand over", !.isEntering = FALSE] ELSE after

(* C5 in the queue. Q2: no cut of an earlier run can be there. *)
PutQueued(r) ==
  /\ run[r].queue = "cut"
  /\ LET e == run[r].owedAt IN
       IF cut[e] # {} /\ Follows("CutIfAbsent")
       THEN /\ IF IsActive(r) THEN Stops(r) ELSE Ends(r)
            /\ UNCHANGED cut
       ELSE /\ cut' = [cut EXCEPT ![e] = @ \cup
                         {[generation |-> run[r].generation, made |-> run[r].owed]}]
            /\ run' = [run EXCEPT ![r].queue = IF Follows("LookQueued") THEN "look" ELSE "empty",
                                  ![r].owed = Nothing,
                                  ![r].owedAt = 0]
  /\ UNCHANGED <<owners, entry, object, frames, shown>>

(* O4 in the queue. *)
LookQueued(r) ==
  /\ run[r].queue = "look"
  /\ IF IsActive(r)
     THEN run' = [run EXCEPT ![r] = Checked(r, HandingOver([@ EXCEPT !.queue = "empty"]))]
     ELSE IF IsFollowed(r) THEN Ends(r) ELSE run' = [run EXCEPT ![r].queue = "empty"]
  /\ UNCHANGED <<owners, entry, object, frames, shown, cut>>

(* A query that is idle has committed its last epoch. *)
EndIdle(r) ==
  /\ Is(r, "idle at end")
  /\ run[r].queue = "empty"
  /\ Ends(r)
  /\ UNCHANGED <<owners, entry, object, frames, shown, cut>>

(* O4: it looks for the next generation before it plans the next epoch. *)
LookAfterCut(r) ==
  /\ Is(r, "look after cut")
  /\ LET passed ==
           IF run[r].epoch = Last THEN Inactive("over")
           ELSE [run[r] EXCEPT !.at = "plan",
                               !.epoch = @ + 1,
                               !.isFirst = FALSE,
                               !.input = Absent,
                               !.isEntering = FALSE,
                               !.follows = Absent,
                               !.made = Nothing]
     IN run' = [run EXCEPT ![r] =
          IF Follows("LookAfterCut") THEN Checked(r, HandingOver(passed)) ELSE passed]
  /\ UNCHANGED <<owners, entry, object, frames, shown, cut>>

(* T2: it says that it has ended, and so lets the run take the query that waits for it. *)
HandOver(r) ==
  /\ Is(r, "hand over")
  /\ ended' = ended \cup {run[r].generation}
  /\ Ends(r)
  /\ UNCHANGED <<top, waiting, took, entry, object, frames, shown, cut>>

-----------------------------------------------------------------------------

Step(r) ==
  \/ Own(r) \/ Wait(r) \/ Take(r) \/ HandOver(r) \/ Find(r) \/ Look(r) \/ PutFence(r) \/ Read(r) \/ Plan(r) \/ Enter(r)
  \/ Claim(r) \/ LookAfterClaim(r) \/ Work(r) \/ Seal(r) \/ LookAfterSeal(r)
  \/ Show(r) \/ Commit(r) \/ LookAfterCut(r)
  \/ CommitLater(r) \/ PutQueued(r) \/ LookQueued(r) \/ EndIdle(r)

(* It is killed. *)
Die(r) ==
  /\ IsActive(r)
  /\ Ends(r)
  /\ UNCHANGED <<owners, entry, object, frames, shown, cut>>

(* O6: it ends for whatever reason, and says so. O7: not where a run before it may yet plan. *)
(* O15, Q4: nor while its own entry or cut is being written; where it does not wait, that comes *)
(* late. So does one whose write has failed without a response; a run that follows O6 then only *)
(* takes no step for long.                                                                     *)
MayAppear(r) ==
  CASE run[r].isEntering \/ run[r].queue # "empty" -> run[r]
    [] Is(r, "plan") /\ ~Follows("EndAfterFailure") -> [run[r] EXCEPT !.isEntering = TRUE]
    [] Is(r, "cut") /\ ~Follows("EndAfterFailure") ->
         [run[r] EXCEPT !.queue = "cut", !.owed = run[r].made, !.owedAt = run[r].epoch]
    [] OTHER -> Inactive("over")

End(r) ==
  /\ IsActive(r)
  /\ (~run[r].isEntering /\ run[r].queue = "empty") \/ ~Follows("EndAfterEntry")
  /\ run[r].at # "own"
  /\ IsLast(run[r].generation)
  /\ run[r].isAlone \/ run[r].at \notin {"find", "look", "fence"} \/ ~Follows("EndAfterFence")
  /\ run[r].at \notin {"wait", "take"} \/ ~Follows("NoEndOfWaiting")
  /\ ended' = ended \cup {run[r].generation}
  /\ LET late == MayAppear(r) IN
       run' = [run EXCEPT ![r] = [Inactive("over") EXCEPT !.isEntering = late.isEntering,
                                                          !.generation = late.generation,
                                                          !.queue = late.queue,
                                                          !.owed = late.owed,
                                                          !.owedAt = late.owedAt,
                                                          !.epoch = late.epoch]]
  /\ UNCHANGED <<top, waiting, took, entry, object, frames, shown, cut>>

Spec == Init /\ [][\E r \in Runs : Start(r) \/ Step(r) \/ Die(r) \/ End(r)]_vars

Symmetry == Permutations(Runs)

-----------------------------------------------------------------------------
(* What holds in each state. *)

OneCut == \A e \in Epochs : Cardinality(cut[e]) <= 1

ShownOnce == \A e \in Epochs : Cardinality(shown[e]) <= 1

(* The sink is done before the gate, and has what the cut commits. *)
ShownIsCut == \A e \in Epochs : \A c \in cut[e] : shown[e] = {c.made}

(* A cut has the decisions of the seal that counts, which no later run has contested. *)
CutIsSealed ==
  \A e \in Epochs : \A c \in cut[e] :
    Sealers(e) # {} => object[e][Maximum(Sealers(e))] = c.made.decided

(* Cuts come one after the other, and none of a run after one of its successor. *)
InOrder ==
  \A e \in Epochs \ {0} : \A c \in cut[e] :
    /\ cut[e - 1] # {}
    /\ \A before \in cut[e - 1] : before.generation <= c.generation

(* The tasks of a run go on from what the cut has, also where that is another run's. *)
GoesOnFromCut ==
  \A r \in Runs : Is(r, "look after cut") => run[r].made \in {c.made : c \in cut[run[r].epoch]}

OneInput ==
  \A r \in Runs : run[r].input # Absent /\ ~run[r].isEntering =>
    run[r].input = entry[run[r].epoch]

(* Nobody is stopped but by a later owner, and who is not stopped can go on. Each step of a run  *)
(* brings it nearer to the last epoch: so the last run gets there, if it lives.                  *)
NoneStopped == \A r \in Runs : ~Is(r, "stopped")
NoneStuck == \A r \in Runs : IsActive(r) => ENABLED Step(r)

-----------------------------------------------------------------------------
(* What the model must be able to reach, so that the above says something: each is to be violated. *)

NeverDone == cut[Last] = {}
NeverFollowed == \A e \in Epochs : \A c \in cut[e] :
  \A r \in Runs : c.made.decided = r => object[e][c.generation] = r /\ Cardinality(Sealers(e)) = 1
NeverContested == \A e \in Epochs : \A c \in cut[e] :
  c.made.decided # Whole => \A g \in Sealers(e) : object[e][g] # Whole
NeverAdopted == \A r \in Runs :
  Is(r, "look after cut") => \E c \in cut[run[r].epoch] : c.generation = run[r].generation
NeverFenced == \A e \in Epochs : cut[e] # {} => entry[e] # Fence
NeverEnteredLate == \A r \in Runs : ~(run[r].isEntering /\ IsFollowed(r))
NeverPlannedBeforeCut == \A r \in Runs : ~(run[r].isEntering /\ run[r].queue = "cut")
NeverCutLate == \A r \in Runs : ~(run[r].queue = "cut" /\ IsFollowed(r))
NeverHandedOver == \A e \in Epochs : \A c \in cut[e] :
  c.generation \in waiting => \A r \in Runs : run[r].generation = c.generation => ~run[r].isAlone
NeverTakenFromActive == \A r, q \in Runs :
  ~(run[r].handsOver /\ IsActive(r) /\ run[r].generation + 1 \in took)
NeverSkipped == \A r \in Runs : Is(r, "cut") => run[r].sink # "skip" \/ shown[run[r].epoch] = {} \/
  \E f \in frames[run[r].epoch] : f.generation = run[r].generation
=============================================================================
